//! Files as people have them, and files with holes.

use std::io::{self, ErrorKind};
use std::path::Path;

use hyper::header::{HeaderName, HeaderValue};

use super::*;

/// A folder with one file.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str() {
        Some("body.json" | "./body.json" | "/path/to/body.json") => {
            Ok(b"{\"user\": {{id}}}".to_vec())
        }
        _ => Err(ErrorKind::NotFound.into()),
    }
}

fn requests(
    text: &str,
    format: RequestFormat,
    rows: Option<&str>,
) -> Result<(Vec<String>, Vec<u32>), String> {
    let rows = rows.map(|rows| Rows::parse(rows).expect("a CSV"));
    let file = RequestFile::parse(text, format, read).map_err(|error| error.to_string())?;
    let mix = file
        .mix(rows.as_ref(), &Template::default())
        .map_err(|error| error.to_string())?;
    let line = |(target, template): &(crate::Target, Template)| {
        let mut line = format!("{} {target}", template.method);
        for (name, value) in &template.headers {
            line += &format!(" | {name}: {}", value.to_str().expect("ASCII"));
        }
        if !template.body.is_empty() {
            line += &format!(" | {}", String::from_utf8_lossy(&template.body));
        }
        line
    };
    Ok((mix.iter().map(line).collect(), mix.order().to_vec()))
}

/// The examples of vegeta's README, and what its parser accepts beside.
#[test]
fn vegeta_files_are_read_as_vegeta_reads_them() {
    let text = "GET http://goku:9090/path/to/dragon?item=ball
GET http://user.host:7777
HEAD http://goku:9090/path/to/success

# a comment
  GET http://user.host:9090/path/to
X-Account-ID: 8675309

DELETE http://goku:9090/path/to/remove
Confirmation-Token: 90215
Authorization: Token DEADBEEF
POST: an odd header

# @weight 2
POST http://goku:9090/things
X-Account-ID: 99
@/path/to/body.json
PATCH http://goku:9090/thing/71988591
@/path/to/body.json
";
    let (requests, order) = requests(text, RequestFormat::Vegeta, None).unwrap();
    assert_eq!(
        requests,
        [
            "GET http://goku:9090/path/to/dragon?item=ball",
            "GET http://user.host:7777/",
            "HEAD http://goku:9090/path/to/success",
            "GET http://user.host:9090/path/to | x-account-id: 8675309",
            "DELETE http://goku:9090/path/to/remove | confirmation-token: 90215 | authorization: Token DEADBEEF \
             | post: an odd header",
            // Without rows, braces are text.
            "POST http://goku:9090/things | x-account-id: 99 | {\"user\": {{id}}}",
            "PATCH http://goku:9090/thing/71988591 | {\"user\": {{id}}}",
        ]
    );
    assert_eq!(order.len(), 8);
    assert_eq!(order.iter().filter(|&&index| index == 5).count(), 2);
}

#[test]
fn http_files_are_read_as_editors_read_them() {
    let text = "@host = http://127.0.0.1:8080
@base={{host}}/api

### List
# @name list
GET {{base}}/orders
    ?page=1
    &size=10 HTTP/1.1
Accept: text/plain
// not yet
X-Trace: {{ id }}

###

{{base}}/health HTTP/1.1

### Order
# @weight 2
POST {{base}}/orders
Content-Type: application/json

{
  \"user\": \"{{name}}\"
}


### Both kinds of files
PUT /a
Host: localhost:81

<@ ./body.json
< body.json

###
POST {{base}}/form
Content-Type: application/x-www-form-urlencoded

a=1
&b={{id}}
";
    let text = text.replace("&size=10 HTTP/1.1", "&size=10");
    let rows = "id,name\n7,\"Doe, Ann\"\n8,Bob\n";
    let (requests, order) = requests(&text, RequestFormat::HttpFile, Some(rows)).unwrap();
    let base = "http://127.0.0.1:8080/api";
    let first = [
        format!("GET {base}/orders?page=1&size=10 | accept: text/plain | x-trace: 7"),
        format!("GET {base}/health"),
        format!(
            "POST {base}/orders | content-type: application/json | {{\n  \"user\": \"Doe, Ann\"\n}}"
        ),
        "PUT http://localhost:81/a | host: localhost:81 | {\"user\": 7}\n{\"user\": {{id}}}"
            .to_owned(),
        format!("POST {base}/form | content-type: application/x-www-form-urlencoded | a=1&b=7"),
    ];
    assert_eq!(requests[..5], first);
    // The second row needs only the requests that use it.
    assert_eq!(requests.len(), 9);
    assert!(requests[5].ends_with("x-trace: 8"), "{}", requests[5]);
    assert_eq!(order.len(), 12);
    assert_eq!(order.iter().filter(|&&index| index == 1).count(), 2);
    assert_eq!(order.iter().filter(|&&index| index == 2).count(), 2);
}

#[test]
fn json_lines_are_those_of_vegeta_and_more() {
    let text = r#"{"method":"POST","url":"http://h/a","header":{"X-Two":["1","2"]},"body":"aGVsbG8="}

{"url":"http://h/{{id}}","headers":{"Accept":"text/plain"},"text":"id {{id}}","weight":3}
{"method":"PUT","url":"http://h/c","json":{"id":"{{id}}"}}
{"method":"PUT","url":"http://h/d","body_file":"body.json"}
"#;
    let (requests, order) = requests(text, RequestFormat::JsonLines, Some("id\n7\n")).unwrap();
    assert_eq!(
        requests,
        [
            "POST http://h/a | x-two: 1 | x-two: 2 | hello",
            "GET http://h/7 | accept: text/plain | id 7",
            r#"PUT http://h/c | content-type: application/json | {"id":"7"}"#,
            r#"PUT http://h/d | {"user": {{id}}}"#,
        ]
    );
    assert_eq!(
        order,
        [1, 0, 1, 2, 3, 1].map(|index| index),
        "spread evenly"
    );
}

#[test]
fn headers_and_body_of_the_command_line_fill_gaps() {
    let text = "GET http://h/a\nX-One: 1\n\nPOST http://h/b\n@body.json\n";
    let file = RequestFile::parse(text, RequestFormat::Vegeta, read).unwrap();
    let defaults = Template {
        headers: vec![
            (
                HeaderName::from_static("x-one"),
                HeaderValue::from_static("9"),
            ),
            (
                HeaderName::from_static("x-two"),
                HeaderValue::from_static("9"),
            ),
        ],
        body: "usual".into(),
        ..Template::default()
    };
    let mix = file.mix(None, &defaults).unwrap();
    let found: Vec<_> = mix
        .iter()
        .map(|(_, template)| (template.headers.len(), template.body.clone()))
        .collect();
    assert_eq!(found[0], (2, "usual".into()));
    assert_eq!(found[1], (2, read(Path::new("body.json")).unwrap().into()));
    assert_eq!(mix.iter().next().unwrap().1.headers[0].1, "1");
}

#[test]
fn a_hole_names_its_line_and_what_to_write() {
    use RequestFormat::{HttpFile, JsonLines, Vegeta};
    for (format, text, expected) in [
        (Vegeta, "", "contains no request: write GET"),
        (Vegeta, "# only a comment\n", "contains no request"),
        (
            Vegeta,
            "GET",
            "line 1: \"GET\" is not a request: write GET http",
        ),
        (
            Vegeta,
            "\nget http://h/",
            "line 2: \"get\" is not a request method: write GET",
        ),
        (
            Vegeta,
            "CONNECT http://h/",
            "line 1: \"CONNECT\" is not a supported request method",
        ),
        (
            Vegeta,
            "GET /path",
            "line 1: \"/path\" has no host: write http://HOST/path",
        ),
        (
            Vegeta,
            "GET h:80/path",
            "line 1: \"h:80/path\" is not a full URL: write http://h:80/path",
        ),
        (
            Vegeta,
            "GET http://h/\nno colon",
            "line 2: \"no colon\" is not a header: write Name: value",
        ),
        (
            Vegeta,
            "GET http://h/\nX:",
            "line 2: \"X:\" is not a header",
        ),
        (
            Vegeta,
            "GET http://h/\na b: c",
            "line 2: \"a b\" is not a header name",
        ),
        (
            Vegeta,
            "GET http://h/\nContent-Length: 5",
            "line 2: the length of the body is added",
        ),
        (
            Vegeta,
            "GET http://h/\n@missing",
            "line 2: cannot read the body \"missing\": ",
        ),
        (
            Vegeta,
            "GET http://h/\n# late\n",
            "line 2: \"# late\" is not a header",
        ),
        (
            Vegeta,
            "# @weight 0\nGET http://h/",
            "line 1: \"@weight 0\" is not a weight from 1",
        ),
        (
            Vegeta,
            "GET http://me:secret@h/",
            "line 1: the URL contains a user name: remove it",
        ),
        (
            HttpFile,
            "GET {{base}}/a",
            "line 1: the variable {{base}} is not defined: write a line @base = ",
        ),
        (
            HttpFile,
            "###\nGET http://h/{{$guid}}",
            "line 2: {{$guid}} is a dynamic variable",
        ),
        (
            HttpFile,
            "GET http://h/{{a",
            "line 1: \"{{a\" is not closed: write {{name}}",
        ),
        (
            HttpFile,
            "@a={{b}}\n@b={{a}}\nGET http://h/{{a}}",
            "refers to itself",
        ),
        (
            HttpFile,
            "@a\nGET http://h/",
            "line 1: \"@a\" is not a variable: write @name = value",
        ),
        (
            HttpFile,
            "> {%\n%}\nGET http://h/",
            "line 1: scripts and response files are not supported",
        ),
        (
            HttpFile,
            "GET http://h/\n\n> ./check.js",
            "line 3: scripts and response files",
        ),
        (
            HttpFile,
            "please list",
            "line 1: \"list\" is not a full URL",
        ),
        (HttpFile, "what", "line 1: \"what\" is not a request"),
        (
            HttpFile,
            "POST http://h/\n\n< gone",
            "line 3: cannot read the body \"gone\"",
        ),
        (
            HttpFile,
            "GRAPHQL http://h/",
            "line 1: \"GRAPHQL\" is not a supported",
        ),
        (
            JsonLines,
            "{\"url\":\"http://h/\"}\n{\"url\":1}",
            "line 2: not a request: invalid type",
        ),
        (
            JsonLines,
            "{\"urls\":\"http://h/\"}",
            "line 1: not a request: unknown field `urls`",
        ),
        (
            JsonLines,
            "{\"url\":\"http://h/\",\"body\":\"?\"}",
            "line 1: the body is not Base64",
        ),
        (
            JsonLines,
            "{\"url\":\"http://h/\",\"body\":\"\",\"text\":\"\"}",
            "line 1: several bodies",
        ),
        (
            JsonLines,
            "{\"url\":\"http://h/\",\"weight\":0}",
            "line 1: \"weight\" is not from 1",
        ),
    ] {
        let error = requests(text, format, None).expect_err(text);
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(
            !error.contains("secret") && !error.contains('\n'),
            "{error}"
        );
    }
    let error = requests(
        "GET http://h/{{i}}",
        RequestFormat::Vegeta,
        Some("id,a\n7,8\n"),
    );
    let expected = "line 1: the variable {{i}} is not defined: write one of {{a}}, {{id}}";
    assert_eq!(error.unwrap_err(), expected);
}

#[test]
fn a_table_with_holes_is_refused() {
    for (text, expected) in [
        ("", "contains no row"),
        ("id,name\n", "contains no row"),
        ("id,\n1,2\n", "line 1: column 2 has no name"),
        ("id,id\n1,2\n", "line 1: two columns have the name \"id\""),
        (
            "id,name\n1,a\n\n2\n",
            "line 4: 1 of 2 columns: write a value for name",
        ),
        (
            "id,name\n1,\"a\nb\"\n2,b,c\n",
            "line 4: 3 values, but 2 columns: write quotes",
        ),
    ] {
        let error = Rows::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    let rows = Rows::parse("\u{feff}id,name\r\n1,\"a\"\"b\"\r\n2,").unwrap();
    assert_eq!(
        (rows.value(0, "name"), rows.value(1, "name")),
        (Some("a\"b"), Some(""))
    );
}

#[test]
fn too_many_requests_are_refused_before_they_are_built() {
    let rows = format!("id\n{}", "1\n".repeat(1_001));
    let text = "GET http://h/{{id}}\n".repeat(1_000);
    let error = requests(&text, RequestFormat::Vegeta, Some(&rows)).unwrap_err();
    assert!(
        error.starts_with("1000 requests for each of 1001 rows exceed"),
        "{error}"
    );
}
