//! Asking a site of which only the address is known: about its cluster, about all sites that it knows, and how it is. Each question is a
//! connection of its own, which needs neither a view nor a lease at either end.

use std::pin::Pin;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::greet::{Asking, GREET_WITHIN, GreetError, ask_about};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_tls::Security;
use meshlock_wire::diagnosis::Diagnosis;
use meshlock_wire::sites::{Introduction, SiteQuestion};

/// A question that is being asked.
type BoxedQuestion<'a, T> = Pin<Box<dyn Future<Output = Result<T, GreetError>> + Send + 'a>>;

/// Why nothing could be learnt from a site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no site of a cluster answers at {address}: {why}")]
pub struct IntroduceError {
    pub address: Address,
    pub why: String,
}

/// Asks the site at `address`, as the site `me`, about its cluster.
pub async fn learn_of_cluster(
    address: &Address,
    me: &SiteName,
    security: &Security,
) -> Result<Introduction, IntroduceError> {
    let asked = within(Box::pin(async {
        Ok(ask(address.as_str(), me, security, SiteQuestion::Introduction).await?.introduction)
    }));
    asked.await.map_err(|error| IntroduceError { address: address.clone(), why: error.to_string() })
}

/// Asks the site at `address`, as the site `me`, how it is.
pub async fn ask_diagnosis(
    address: &Address,
    me: &SiteName,
    security: &Security,
) -> Result<Diagnosis, IntroduceError> {
    let asked = within(Box::pin(async {
        ask(address.as_str(), me, security, SiteQuestion::Diagnosis).await?.diagnosis().await
    }));
    asked.await.map_err(|error| IntroduceError { address: address.clone(), why: error.to_string() })
}

/// Asks the site at `address` for its name, and for all sites that it knows, with their addresses. A program that does not know the question
/// names the initial sites.
pub(super) async fn ask_for_everyone(
    address: &str,
    me: &SiteName,
    security: &Security,
) -> Result<(SiteName, Introduction), GreetError> {
    within(Box::pin(async {
        let asking = ask(address, me, security, SiteQuestion::Everyone).await?;
        let (site, introduction) = (asking.site.clone(), asking.introduction.clone());
        match asking.everyone().await {
            Err(GreetError::OldProgram) => Ok((site, introduction)),
            everyone => Ok((site, everyone?)),
        }
    }))
    .await
}

async fn ask(
    address: &str,
    me: &SiteName,
    security: &Security,
    question: SiteQuestion,
) -> Result<Asking, GreetError> {
    let stream = TcpStream::connect(address).await?;
    ask_about(stream, security.dialling_any()?, me, question).await
}

/// Waits for an answer. The question is in a box, because it has a buffer in it.
async fn within<T>(asking: BoxedQuestion<'_, T>) -> Result<T, GreetError> {
    timeout(GREET_WITHIN, asking).await.unwrap_or(Err(GreetError::Silent))
}

#[cfg(test)]
mod tests {
    use meshlock_testing::async_test;
    use meshlock_wire::sites::{Hello, Versions, greeting, take_greeting};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers each question as a program of the last version does: with an introduction, whatever is asked.
    async fn old_program(listener: &TcpListener, introduction: &Introduction) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut bytes, mut read) = (Vec::new(), [0; 1024]);
        while take_greeting(&mut bytes, Versions::default()).unwrap().is_none() {
            let count = stream.read(&mut read).await.unwrap();
            assert!(count > 0, "a greeting");
            bytes.extend(&read[..count]);
        }
        let hello = Hello { from: "old".parse().unwrap(), to: "me".parse().unwrap(), incarnation: 7 };
        stream.write_all(&greeting(&hello, Versions::up_to(4))).await.unwrap();
        stream.write_all(&introduction.frame()).await.unwrap();
    }

    #[test]
    fn a_program_that_does_not_know_a_question_is_told_apart_and_names_its_first_sites_all_the_same() {
        async_test(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
            let sites = vec![("old".parse().unwrap(), Some(address.clone()))];
            let introduction = Introduction { cluster: "c".parse().unwrap(), sites };
            let (me, plain) = ("me".parse().unwrap(), Security::Plain);
            let asked = ask_diagnosis(&address, &me, &plain);
            let (report, ()) = tokio::join!(asked, old_program(&listener, &introduction));
            assert!(report.unwrap_err().why.contains("older version of Meshlock"));
            let asked = ask_for_everyone(address.as_str(), &me, &plain);
            let (everyone, ()) = tokio::join!(asked, old_program(&listener, &introduction));
            assert_eq!(everyone.unwrap(), ("old".parse().unwrap(), introduction));
        });
    }

    #[test]
    fn nobody_and_somebody_else_are_errors_that_name_the_address() {
        async_test(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
            let me = "me".parse().unwrap();
            let somebody = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(b"HTTP/1.1 400 Bad Request").await.unwrap();
            };
            let asked = ask_diagnosis(&address, &me, &Security::Plain);
            let (report, ()) = tokio::join!(asked, somebody);
            assert!(report.unwrap_err().why.contains("does not speak Meshlock's protocol"));
            drop(listener);
            let error = ask_diagnosis(&address, &me, &Security::Plain).await.unwrap_err();
            assert!(error.to_string().contains(address.as_str()), "{error}");
        });
    }
}
