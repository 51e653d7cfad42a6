//! Requests and answers of HTTP as they are forwarded.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use axum::response::Response;
use bytes::{BufMut, BytesMut};
use hyper::body::Frame;
use meshlock_wire::sites::calls::{ForwardedAnswer, ForwardedRequest, MAX_HEADERS};
use prost::Message;
use tonic::{Code, Status};

/// The headers of a request that are forwarded: those that say how to read it and what it is part of. Credentials are not among them.
const FORWARDED: &[&str] = &[
    "content-type",
    "accept",
    "grpc-timeout",
    "hasleader",
    "grpc-metadata-hasleader",
    "traceparent",
    "x-request-id",
];

/// The headers of an answer that belong to one connection.
const OF_CONNECTION: &[&str] = &["content-length", "transfer-encoding", "connection", "keep-alive", "date"];

/// Why a body cannot be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    CutOff,
}

/// Reads a whole body of at most `max` bytes. `counted` is told its length so far, and may refuse it.
pub(super) async fn read_body<E>(
    mut body: Body,
    max: usize,
    mut counted: impl FnMut(usize) -> Result<(), E>,
) -> Result<(Bytes, HeaderMap), E>
where
    E: From<BodyError>,
{
    let (mut data, mut trailers) = (BytesMut::new(), HeaderMap::new());
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| BodyError::CutOff)?;
        match frame.into_data() {
            Ok(chunk) if data.len() + chunk.len() > max => return Err(BodyError::TooLarge.into()),
            Ok(chunk) => {
                data.put(chunk);
                counted(data.len())?;
            }
            Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
    Ok((data.freeze(), trailers))
}

/// Returns a request as it is forwarded.
pub(super) fn outgoing(parts: &Parts, body: &Bytes) -> ForwardedRequest {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let header = |name: &&str| Some(((*name).to_owned(), parts.headers.get(*name)?.as_bytes().to_vec()));
    let headers = FORWARDED.iter().filter_map(header).collect();
    ForwardedRequest { method: parts.method.as_str().to_owned(), target, headers, body: body.to_vec() }
}

/// Returns a request of gRPC with one message.
pub(super) fn grpc_request(path: &str, message: &impl Message) -> ForwardedRequest {
    let mut body = vec![0];
    let length = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
    body.extend(length.to_be_bytes());
    body.extend(message.encode_to_vec());
    let headers = vec![("content-type".to_owned(), b"application/grpc".to_vec())];
    ForwardedRequest { method: "POST".to_owned(), target: path.to_owned(), headers, body }
}

/// Returns the bytes of the one message in a body of gRPC, if it is not compressed.
pub(super) fn grpc_message(body: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = body.split_at_checked(5)?;
    let length = u32::from_be_bytes(prefix[1..].try_into().ok()?);
    (prefix[0] == 0 && usize::try_from(length).ok()? == message.len()).then_some(message)
}

/// Reads an answer of gRPC that has one message.
pub(super) fn grpc_answer<A: Message + Default>(answer: &ForwardedAnswer) -> Result<A, Status> {
    let said = |name: &str| {
        let mut all = answer.trailers.iter().chain(&answer.headers);
        all.find(|(other, _)| other == name).map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let code = said("grpc-status").and_then(|code| code.parse().ok()).map_or(Code::Unknown, Code::from_i32);
    if code != Code::Ok {
        return Err(Status::new(code, said("grpc-message").unwrap_or_default()));
    }
    let message = grpc_message(&answer.body).and_then(|message| A::decode(message).ok());
    message.ok_or_else(|| Status::internal("meshlock: the other site's answer cannot be read"))
}

/// Builds a request that was forwarded. `None` if it is not one of HTTP.
pub(super) fn incoming(request: ForwardedRequest) -> Option<Request<Body>> {
    let mut built = Request::builder().method(request.method.as_str()).uri(request.target.as_str());
    for (name, value) in request.headers {
        if !FORWARDED.contains(&name.as_str()) {
            return None;
        }
        built = built.header(name, value);
    }
    built.body(Body::from(request.body)).ok()
}

/// Returns an answer as it is sent back.
pub(super) fn answer(
    status: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
    trailers: &HeaderMap,
) -> ForwardedAnswer {
    let list = |headers: &HeaderMap| {
        let all = headers.iter().filter(|(name, _)| !OF_CONNECTION.contains(&name.as_str()));
        let all = all.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
        all.take(MAX_HEADERS).collect()
    };
    let (headers, trailers) = (list(headers), list(trailers));
    ForwardedAnswer { status: status.as_u16(), headers, body: body.to_vec(), trailers }
}

/// Builds the answer of this site from that of another one. `None` if it is not one of HTTP.
pub(super) fn response(answer: ForwardedAnswer) -> Option<Response> {
    let map = |headers: Vec<(String, Vec<u8>)>| -> Option<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let (name, value) = (HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?);
            map.append(name, value);
        }
        Some(map)
    };
    let trailers = map(answer.trailers)?;
    let body = WholeBody { data: Bytes::from(answer.body), trailers };
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = StatusCode::from_u16(answer.status).ok()?;
    *response.headers_mut() = map(answer.headers)?;
    for name in OF_CONNECTION {
        response.headers_mut().remove(*name);
    }
    Some(response)
}

/// A body that is known whole, with its trailers.
struct WholeBody {
    data: Bytes,
    trailers: HeaderMap,
}

impl HttpBody for WholeBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if !self.data.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.data)))));
        }
        if !self.trailers.is_empty() {
            return Poll::Ready(Some(Ok(Frame::trailers(std::mem::take(&mut self.trailers)))));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty() && self.trailers.is_empty()
    }
}
