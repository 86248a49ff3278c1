//! Server reflection: what the services and messages of this door are, for clients without their definitions.
//!
//! `grpc.reflection.v1` and `grpc.reflection.v1alpha` have the same messages.

use prost::Message;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;
use tonic::Code;

pub(super) const V1: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
pub(super) const V1_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// A `FileDescriptorSet`, which `descriptors.py` makes of the official definitions.
static DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");

#[derive(Clone, PartialEq, Message)]
pub(super) struct ServerReflectionRequest {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(oneof = "Question", tags = "3, 4, 5, 6, 7")]
    question: Option<Question>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Question {
    #[prost(string, tag = "3")]
    FileByFilename(String),
    #[prost(string, tag = "4")]
    FileContainingSymbol(String),
    #[prost(message, tag = "5")]
    FileContainingExtension(ExtensionRequest),
    #[prost(string, tag = "6")]
    AllExtensionNumbersOfType(String),
    #[prost(string, tag = "7")]
    ListServices(String),
}

#[derive(Clone, PartialEq, Message)]
struct ExtensionRequest {
    #[prost(string, tag = "1")]
    containing_type: String,
    #[prost(int32, tag = "2")]
    extension_number: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ServerReflectionResponse {
    #[prost(string, tag = "1")]
    valid_host: String,
    #[prost(message, optional, tag = "2")]
    original_request: Option<ServerReflectionRequest>,
    #[prost(oneof = "Answer", tags = "4, 5, 6, 7")]
    answer: Option<Answer>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Answer {
    #[prost(message, tag = "4")]
    Files(FileDescriptorResponse),
    #[prost(message, tag = "5")]
    ExtensionNumbers(ExtensionNumberResponse),
    #[prost(message, tag = "6")]
    Services(ListServiceResponse),
    #[prost(message, tag = "7")]
    Error(ErrorResponse),
}

#[derive(Clone, PartialEq, Message)]
struct FileDescriptorResponse {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file_descriptor_proto: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct ExtensionNumberResponse {
    #[prost(string, tag = "1")]
    base_type_name: String,
    #[prost(int32, repeated, tag = "2")]
    extension_number: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct ListServiceResponse {
    #[prost(message, repeated, tag = "1")]
    service: Vec<Name>,
}

#[derive(Clone, PartialEq, Message)]
struct ErrorResponse {
    #[prost(int32, tag = "1")]
    error_code: i32,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// `ServiceResponse`, and the name of any descriptor.
#[derive(Clone, PartialEq, Message)]
struct Name {
    #[prost(string, tag = "1")]
    name: String,
}

/// A `FileDescriptorSet` whose files are kept as bytes.
#[derive(Clone, PartialEq, Message)]
struct FileSet {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

/// The names of a `FileDescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct FileNames {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
    #[prost(string, repeated, tag = "3")]
    dependency: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    message: Vec<MessageNames>,
    #[prost(message, repeated, tag = "5")]
    enumeration: Vec<Name>,
    #[prost(message, repeated, tag = "6")]
    service: Vec<ServiceNames>,
}

/// The names of a `DescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct MessageNames {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    field: Vec<Name>,
    #[prost(message, repeated, tag = "3")]
    nested: Vec<MessageNames>,
    #[prost(message, repeated, tag = "4")]
    enumeration: Vec<Name>,
}

/// The names of a `ServiceDescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct ServiceNames {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    method: Vec<Name>,
}

/// All files, and where each name is.
#[derive(Debug, Default)]
struct Definitions {
    files: BTreeMap<String, File>,
    /// Full names, with the file of each.
    symbols: HashMap<String, String>,
    services: Vec<Name>,
}

#[derive(Debug)]
struct File {
    bytes: Bytes,
    dependencies: Vec<String>,
}

static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(|| {
    // A test reads them: an error would be one of this program.
    Definitions::read(Bytes::from_static(DESCRIPTORS)).unwrap_or_default()
});

/// Answers a request. An unknown name is an answer, too.
pub(super) fn answer(request: ServerReflectionRequest) -> ServerReflectionResponse {
    let answer = DEFINITIONS.answer(request.question.as_ref());
    ServerReflectionResponse {
        valid_host: request.host.clone(),
        original_request: Some(request),
        answer: Some(answer.unwrap_or_else(Answer::Error)),
    }
}

fn error(code: Code, message: &str) -> ErrorResponse {
    ErrorResponse {
        error_code: code as i32,
        error_message: message.to_owned(),
    }
}

impl Definitions {
    fn read(set: Bytes) -> Result<Self, prost::DecodeError> {
        let mut definitions = Self::default();
        for bytes in FileSet::decode(set)?.file {
            let names = FileNames::decode(bytes.clone())?;
            let mut symbols = Vec::new();
            for message in &names.message {
                message.add_to(&names.package, &mut symbols);
            }
            for one in &names.enumeration {
                symbols.push(joined(&names.package, &one.name));
            }
            for service in &names.service {
                let name = joined(&names.package, &service.name);
                let methods = service.method.iter();
                symbols.extend(methods.map(|method| joined(&name, &method.name)));
                symbols.push(name.clone());
                definitions.services.push(Name { name });
            }
            let of_file = symbols.into_iter().map(|name| (name, names.name.clone()));
            definitions.symbols.extend(of_file);
            let file = File {
                bytes,
                dependencies: names.dependency,
            };
            definitions.files.insert(names.name, file);
        }
        Ok(definitions)
    }

    fn answer(&self, question: Option<&Question>) -> Result<Answer, ErrorResponse> {
        let no_symbol = || error(Code::NotFound, "no such symbol");
        match question {
            Some(Question::FileByFilename(name)) => self.file(name),
            Some(Question::FileContainingSymbol(name)) => {
                let file = self.symbols.get(name).ok_or_else(no_symbol)?;
                self.file(file)
            }
            Some(Question::FileContainingExtension(_)) => {
                Err(error(Code::NotFound, "there are no extensions"))
            }
            Some(Question::AllExtensionNumbersOfType(name)) => {
                self.symbols.get(name).ok_or_else(no_symbol)?;
                Ok(Answer::ExtensionNumbers(ExtensionNumberResponse {
                    base_type_name: name.clone(),
                    extension_number: Vec::new(),
                }))
            }
            Some(Question::ListServices(_)) => Ok(Answer::Services(ListServiceResponse {
                service: self.services.clone(),
            })),
            None => Err(error(Code::InvalidArgument, "no question that is known")),
        }
    }

    /// Returns a file and all that it needs, so that no client has to ask again.
    fn file(&self, name: &str) -> Result<Answer, ErrorResponse> {
        let mut seen = BTreeSet::from([name]);
        let mut open = vec![name];
        let mut files = Vec::new();
        while let Some(name) = open.pop() {
            let file = self.files.get(name);
            let file = file.ok_or_else(|| error(Code::NotFound, "no such file"))?;
            files.push(file.bytes.clone());
            let others = file.dependencies.iter().map(String::as_str);
            open.extend(others.filter(|name| seen.insert(name)));
        }
        Ok(Answer::Files(FileDescriptorResponse {
            file_descriptor_proto: files,
        }))
    }
}

impl MessageNames {
    /// Adds the full names of a message and what is in it. The official definitions nest no deeper than 3.
    fn add_to(&self, above: &str, symbols: &mut Vec<String>) {
        let name = joined(above, &self.name);
        for nested in &self.nested {
            nested.add_to(&name, symbols);
        }
        for one in self.field.iter().chain(&self.enumeration) {
            symbols.push(joined(&name, &one.name));
        }
        symbols.push(name);
    }
}

fn joined(above: &str, name: &str) -> String {
    match above {
        "" => name.to_owned(),
        above => format!("{above}.{name}"),
    }
}
