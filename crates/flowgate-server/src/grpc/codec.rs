//! Messages as protocol buffers.

use prost::Message;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Reads messages `M` and writes messages `R`.
///
/// tonic-prost reports a broken message as `INTERNAL`, a mistake of the server. Here, it is the client's.
pub(super) struct Protobuf<M, R>(PhantomData<fn() -> (M, R)>);

impl<M, R> Protobuf<M, R> {
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<M, R> Codec for Protobuf<M, R>
where
    M: Message + Default + 'static,
    R: Message + 'static,
{
    type Encode = R;
    type Decode = M;
    type Encoder = Write<R>;
    type Decoder = Read<M>;

    fn encoder(&mut self) -> Write<R> {
        Write(PhantomData)
    }

    fn decoder(&mut self) -> Read<M> {
        Read(PhantomData)
    }
}

pub(super) struct Read<M>(PhantomData<fn() -> M>);

impl<M: Message + Default> Decoder for Read<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        let message =
            M::decode(from).map_err(|error| Status::invalid_argument(error.to_string()))?;
        Ok(Some(message))
    }

    fn buffer_settings(&self) -> BufferSettings {
        usual_size()
    }
}

pub(super) struct Write<R>(PhantomData<fn(R)>);

impl<R: Message> Encoder for Write<R> {
    type Item = R;
    type Error = Status;

    fn encode(&mut self, message: R, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message
            .encode(to)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        usual_size()
    }
}

/// A request and its answer have some hundred bytes. tonic would allocate 8 KiB for each.
fn usual_size() -> BufferSettings {
    BufferSettings::new(512, 32 << 10)
}
