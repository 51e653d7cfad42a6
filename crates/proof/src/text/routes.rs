//! Between whom messages go.

use super::{Reader, TextError};
use crate::model::{MessageRoute, RouteEnd, SENT};

impl Reader {
    /// Reads `grant_sent(i, n) from boss to i`; who sends it may be left out.
    pub(super) fn route(&mut self) -> Result<(), TextError> {
        let name = self.next()?;
        let symbol = self.model.symbol(&name).filter(|_| name.ends_with(SENT));
        let symbol =
            symbol.ok_or_else(|| self.error(format!("'{name}' is no relation of messages on their way")))?;
        if self.model.routes.iter().any(|route| route.symbol == symbol) {
            return Err(self.error(format!("the ends of '{name}' are said twice")));
        }
        let arguments = self.listed()?;
        if arguments.len() != self.model.symbols[symbol].arguments.len() {
            return Err(self.error(format!("'{name}' has another number of arguments")));
        }
        let from = if self.takes("from") { Some(self.end(&arguments)?) } else { None };
        self.expect("to")?;
        let to = self.end(&arguments)?;
        self.model.routes.push(MessageRoute { symbol, from, to });
        Ok(())
    }

    /// An end: one of the arguments, or a value without arguments.
    fn end(&mut self, arguments: &[String]) -> Result<RouteEnd, TextError> {
        let name = self.next()?;
        if let Some(at) = arguments.iter().position(|argument| *argument == name) {
            return Ok(RouteEnd::Argument(at));
        }
        let value = self.model.symbol(&name).filter(|&symbol| {
            let symbol = &self.model.symbols[symbol];
            symbol.arguments.is_empty() && symbol.result.is_some()
        });
        value.map(RouteEnd::Value).ok_or_else(|| self.error(format!("'{name}' is no end of a message's way")))
    }

    /// Every other message goes from its first argument to its second.
    pub(super) fn default_routes(&mut self) -> Result<(), TextError> {
        let site = self.model.sort("site");
        for (symbol, declared) in self.model.symbols.iter().enumerate() {
            let is_said = self.model.routes.iter().any(|route| route.symbol == symbol);
            if is_said || !declared.name.ends_with(SENT) {
                continue;
            }
            if declared.arguments.len() < 2 || declared.arguments[..2].iter().any(|&sort| Some(sort) != site)
            {
                return Err(self.error(format!("`sent` does not say to whom '{}' goes", declared.name)));
            }
            let (from, to) = (Some(RouteEnd::Argument(0)), RouteEnd::Argument(1));
            self.model.routes.push(MessageRoute { symbol, from, to });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::model::RouteEnd;
    use crate::models;
    use crate::text::parse;

    #[test]
    fn every_message_of_every_model_goes_to_a_site() {
        let mut open = Vec::new();
        for covered in models::all() {
            let model = covered.model();
            let site = model.sort("site");
            let messages = model.symbols.iter().filter(|symbol| symbol.name.ends_with("_sent")).count();
            assert_eq!(model.routes.len(), messages, "{}", covered.name);
            for route in &model.routes {
                let symbol = &model.symbols[route.symbol];
                for end in [Some(route.to), route.from].into_iter().flatten() {
                    let sort = match end {
                        RouteEnd::Argument(at) => Some(symbol.arguments[at]),
                        RouteEnd::Value(value) => model.symbols[value].result,
                    };
                    assert_eq!(sort, site, "{}: {}", covered.name, symbol.name);
                }
                if route.from.is_none() {
                    open.push((covered.name, symbol.name.clone()));
                }
            }
        }
        let open: Vec<(&str, &str)> = open.iter().map(|(model, name)| (*model, name.as_str())).collect();
        let tokens = [
            ("delegated", "perm_sent"),
            ("srimani-reddy", "token_sent"),
            ("bulgannawar-vaidya", "token_sent"),
            ("makki", "token_sent"),
        ];
        assert_eq!(open, tokens, "all others say who has sent them");
    }

    #[test]
    fn a_message_that_goes_nowhere_is_refused() {
        let refused =
            |text: &str| parse(&format!("sort site, time; fixed boss: site; {text}")).unwrap_err().what;
        assert!(refused("relation x_sent(site);").contains("`sent` does not say to whom 'x_sent' goes"));
        assert!(refused("relation x_sent(site, time);").contains("does not say to whom"));
        assert!(refused("relation x_sent(site); sent x_sent(i) from i to j;").contains("'j' is no end"));
        assert!(refused("relation x_sent(site); sent x_sent(i, j) to i;").contains("another number"));
        assert!(refused("relation x(site); sent x(i) to i;").contains("no relation of messages"));
        let twice = "relation x_sent(site); sent x_sent(i) to i; sent x_sent(i) to boss;";
        assert!(refused(twice).contains("said twice"));
        let model =
            parse("sort site; fixed boss: site; relation x_sent(site); sent x_sent(i) from i to boss;");
        let route = model.unwrap().routes[0];
        assert_eq!((route.from, route.to), (Some(RouteEnd::Argument(0)), RouteEnd::Value(0)));
    }
}
