//! Web pages: a browser of this machine must not let a page of another site use the API.

use super::*;

/// Makes a call with these headers over a connection of this machine, as `curl` or a browser would. Returns the status and the code.
async fn call(server: &TestServer, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let mut request = Request::post(path).header("content-type", "text/plain");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::from("{}")).unwrap();
    request.extensions_mut().insert(RemoteClient::local());
    let answer = in_time("an answer", server.router.clone().call(request)).await.unwrap();
    let (parts, body) = answer.into_parts();
    let body = in_time("all of the answer", to_bytes(body, 1 << 20)).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    (parts.status.as_u16(), body["code"].clone())
}

#[test]
fn a_page_of_another_site_can_neither_take_nor_break_a_lock() {
    async_test(async {
        let server = TestServer::new(&[], &[]);
        let host = ("host", "127.0.0.1:2379");
        let refused = (403, Value::from("cross_site"));
        for path in ["/v1/locks/a/acquire", "/v1/locks/a/break", "/v3/lock/lock", "/v1/sessions"] {
            // A form or a script of the page, which the browser sends without asking first.
            assert_eq!(
                call(&server, path, &[host, ("origin", "http://evil.example")]).await.0,
                403,
                "{path}"
            );
        }
        let path = "/v1/locks/a/acquire";
        assert_eq!(call(&server, path, &[host, ("sec-fetch-site", "cross-site")]).await, refused);
        // A name of the page's owner that resolves to this machine: to the browser the page and the API are one site.
        let rebound = [("host", "evil.example:2379"), ("origin", "http://evil.example:2379")];
        assert_eq!(call(&server, path, &rebound).await, refused);
    });
}

#[test]
fn programs_of_this_machine_are_served_whatever_loopback_name_they_use() {
    async_test(async {
        let server = TestServer::new(&[], &[]);
        for (at, host) in ["127.0.0.1:2379", "localhost:2379", "[::1]:2379"].into_iter().enumerate() {
            let path = format!("/v1/locks/lock-{at}/acquire");
            assert_eq!(call(&server, &path, &[("host", host)]).await.0, 200, "{host}");
        }
        let grpc = "http://127.0.0.1:2379/v1/locks/by-authority/acquire";
        assert_eq!(call(&server, grpc, &[]).await.0, 200, "as HTTP/2 says it");
    });
}
