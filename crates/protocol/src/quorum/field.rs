//! Finite fields of prime-power order, as tables: the arithmetic behind [projective planes](super::plane).
//!
//! The field of order pᵉ is the polynomials of degree below e over the integers mod p, multiplied modulo a
//! polynomial of degree e without factors. An element is a number `0..order` whose digits to the base p are the
//! coefficients, so 0 is zero and 1 is one. The polynomial is found by trying: the first modulo which no two
//! non-zero elements give zero.

/// The largest order for which a field is built.
pub const MAX_ORDER: usize = 101;

/// An element of a [`FiniteField`], `0..order`.
pub type Element = u8;

/// A finite field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiniteField {
    order: usize,
    /// Row by row.
    sums: Vec<Element>,
    /// Row by row.
    products: Vec<Element>,
}

impl FiniteField {
    /// The field of this order, if the order is a power of a prime and at most [`MAX_ORDER`].
    pub fn new(order: usize) -> Option<Self> {
        let digits = Some(order).filter(|&order| order <= MAX_ORDER).and_then(Digits::of_order)?;
        let table = |of: &dyn Fn(usize, usize) -> usize| -> Vec<Element> {
            let pairs = (0..order).flat_map(|a| (0..order).map(move |b| (a, b)));
            pairs.map(|(a, b)| Element::try_from(of(a, b)).expect("the order fits")).collect()
        };
        let has_no_zero_divisors =
            |tail: &usize| (1..order).all(|a| (a..order).all(|b| digits.product(*tail, a, b) != 0));
        let tail = (0..order).find(has_no_zero_divisors).expect("there is an irreducible polynomial");
        Some(FiniteField {
            order,
            sums: table(&|a, b| digits.sum(a, b)),
            products: table(&|a, b| digits.product(tail, a, b)),
        })
    }

    /// The number of elements.
    pub fn order(&self) -> usize {
        self.order
    }

    /// All elements, zero first.
    pub fn elements(&self) -> impl Iterator<Item = Element> + Clone + use<> {
        (0..=Element::MAX).take(self.order)
    }

    /// The sum of two elements.
    pub fn sum(&self, a: Element, b: Element) -> Element {
        self.sums[usize::from(a) * self.order + usize::from(b)]
    }

    /// The product of two elements.
    pub fn product(&self, a: Element, b: Element) -> Element {
        self.products[usize::from(a) * self.order + usize::from(b)]
    }
}

/// The prime power closest to `order` for which a field is built; the smaller one of two.
pub fn nearest_order(order: usize) -> usize {
    let orders = (2..=MAX_ORDER).filter(|&order| Digits::of_order(order).is_some());
    orders.min_by_key(|found| found.abs_diff(order)).expect("2 is prime")
}

/// The smallest prime power that is at least `order`.
pub(super) fn next_order(order: usize) -> Option<usize> {
    (order.max(2)..=MAX_ORDER).find(|&order| Digits::of_order(order).is_some())
}

/// Numbers `0..prime^count` as polynomials with `count` coefficients `0..prime`.
struct Digits {
    prime: usize,
    count: u32,
}

impl Digits {
    fn of_order(order: usize) -> Option<Self> {
        let prime = (2..=order).find(|factor| order.is_multiple_of(*factor))?;
        let count = order.ilog(prime);
        (prime.pow(count) == order).then_some(Digits { prime, count })
    }

    fn sum(&self, a: usize, b: usize) -> usize {
        let digit = |number: usize, at: u32| number / self.prime.pow(at);
        (0..self.count).map(|at| (digit(a, at) + digit(b, at)) % self.prime * self.prime.pow(at)).sum()
    }

    /// `a` multiplied by a single digit.
    fn scaled(&self, digit: usize, a: usize) -> usize {
        (0..digit).fold(0, |sum, _| self.sum(sum, a))
    }

    /// The product of polynomials where x to the `count` is `tail`, by Horner's rule over the digits of `b`.
    fn product(&self, tail: usize, a: usize, b: usize) -> usize {
        let top = self.prime.pow(self.count - 1);
        let times_x = |number: usize| self.sum(number % top * self.prime, self.scaled(number / top, tail));
        (0..self.count).rev().fold(0, |sum, at| {
            let digit = b / self.prime.pow(at) % self.prime;
            self.sum(times_x(sum), self.scaled(digit, a))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_field_of_every_prime_power_up_to_31_and_of_nothing_else() {
        let orders: Vec<usize> = (0..=32).filter(|&order| FiniteField::new(order).is_some()).collect();
        assert_eq!(orders, [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32]);
    }

    #[test]
    fn every_table_obeys_the_laws_of_a_field() {
        for field in (2..=32).filter_map(FiniteField::new) {
            let all = || field.elements();
            for a in all() {
                assert_eq!((field.sum(a, 0), field.product(a, 1), field.product(a, 0)), (a, a, 0));
                assert_eq!(all().filter(|&b| field.sum(a, b) == 0).count(), 1, "one negative");
                assert_eq!(all().filter(|&b| field.product(a, b) == 1).count(), usize::from(a != 0));
                for (b, c) in all().flat_map(|b| all().map(move |c| (b, c))) {
                    assert_eq!(field.sum(a, b), field.sum(b, a));
                    assert_eq!(field.product(a, b), field.product(b, a));
                    assert_eq!(field.sum(field.sum(a, b), c), field.sum(a, field.sum(b, c)));
                    assert_eq!(field.product(field.product(a, b), c), field.product(a, field.product(b, c)));
                    let sum_of_products = field.sum(field.product(a, b), field.product(a, c));
                    assert_eq!(field.product(a, field.sum(b, c)), sum_of_products);
                }
            }
        }
    }

    #[test]
    fn the_nearest_order_is_suggested() {
        assert_eq!(
            [nearest_order(0), nearest_order(6), nearest_order(33), nearest_order(500)],
            [2, 5, 32, 101]
        );
    }
}
