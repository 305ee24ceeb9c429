//! Searches and sorts users for operators.
//!
//! A search is one pass over the encoded users in memory. It holds at most [`UserSearch::offset`] plus
//! [`UserSearch::limit`] users at a time, so its memory does not grow with the number of users, and no index has to be
//! kept for it. The pass locks one of 256 shards at a time; logins wait for at most one of them.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::{Accounts, User};
use playgate_types::{Country, PartnerId, UserId};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserOrder {
    #[default]
    Id,
    Email,
    Name,
    Created,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSearch {
    pub partner: Option<PartnerId>,
    /// Each of these words is a part of the e-mail address, the name or the id. Case and accents are ignored, except in
    /// the id.
    pub text: Option<String>,
    pub country: Option<Country>,
    pub disabled: Option<bool>,
    pub tag: Option<String>,
    pub order: UserOrder,
    pub descending: bool,
    pub after: Option<UserId>,
    /// Number of users to skip in this order.
    pub offset: usize,
    pub limit: usize,
    /// Counts all users that match. Without it, a list by id decodes only the users of its page.
    pub count: bool,
}

pub struct UserPage {
    pub users: Vec<Arc<User>>,
    /// Only with [`UserSearch::count`].
    pub total: Option<usize>,
}

/// Text, time and id: the id makes the order total.
type SortKey = (String, i64, UserId);

impl UserSearch {
    fn key(&self, user: &User) -> SortKey {
        match self.order {
            UserOrder::Id => (String::new(), 0, user.id),
            UserOrder::Email => (user.email.as_str().to_owned(), 0, user.id),
            UserOrder::Name => {
                let name = user.name.as_ref().map_or("", |name| name.as_str());
                (name.to_lowercase(), 0, user.id)
            }
            UserOrder::Created => (String::new(), user.created.0, user.id),
        }
    }

    fn words(&self) -> Vec<Word> {
        let text = self.text.as_deref().unwrap_or_default();
        let word = |typed: &str| Word {
            typed: typed.to_owned(),
            folded: folded(typed),
        };
        text.split_whitespace().map(word).collect()
    }

    fn matches(&self, user: &User, words: &[Word]) -> bool {
        self.partner.is_none_or(|partner| user.partner == partner)
            && self.country.is_none_or(|of| user.country == Some(of))
            && self.disabled.is_none_or(|is| user.disabled == is)
            && self.tag.as_ref().is_none_or(|tag| user.tags.contains(tag))
            && (words.is_empty() || contains_all(user, words))
    }
}

/// A word of a search.
struct Word {
    typed: String,
    folded: String,
}

fn contains_all(user: &User, words: &[Word]) -> bool {
    let email = folded(user.email.as_str());
    let name = user.name.as_ref().map(|name| folded(name.as_str()));
    let id = LazyCell::new(|| user.id.to_string());
    words.iter().all(|word| {
        email.contains(&word.folded)
            || name
                .as_ref()
                .is_some_and(|name| name.contains(&word.folded))
            || id.contains(&word.typed)
    })
}

/// Returns a text in lower case and without accents, as the lists of the console compare texts.
fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let lower = text.to_lowercase();
    let mut folded = String::with_capacity(lower.len());
    for letter in lower.nfd().filter(|letter| !is_combining_mark(*letter)) {
        match letter {
            // Unicode does not decompose these into a base letter and an accent.
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'þ' => folded.push_str("th"),
            'ø' => folded.push('o'),
            'đ' | 'ð' => folded.push('d'),
            'ł' => folded.push('l'),
            'ı' => folded.push('i'),
            other => folded.push(other),
        }
    }
    folded
}

impl Accounts {
    pub fn search(&self, search: &UserSearch) -> UserPage {
        // The skipped users must be sorted, too, so the page holds them.
        let kept = search.offset.saturating_add(search.limit);
        let words = search.words();
        let mut page = BTreeMap::<SortKey, User>::new();
        let mut total = 0_usize;
        self.0.users.for_each(|id, user| {
            let follows = search.after.is_none_or(|after| *id > after);
            // Users that cannot be on the page are not decoded, unless they are counted.
            let is_full = page.len() >= kept && search.order == UserOrder::Id && !search.descending;
            let fits = !is_full
                || page
                    .last_key_value()
                    .is_some_and(|((.., last), _)| id < last);
            if !(search.count || follows && fits) {
                return;
            }
            let matching = user().filter(|user| search.matches(user, &words));
            let Some(user) = matching else { return };
            // Counted even if the user is not on this page.
            total += 1;
            if follows && fits {
                page.insert(search.key(&user), user);
            }
            // A user more than the page needs: the last one in this order goes.
            if page.len() > kept {
                let _ = if search.descending {
                    page.pop_first()
                } else {
                    page.pop_last()
                };
            }
        });
        let sorted = page.into_values().map(Arc::new);
        let users = if search.descending {
            sorted.rev().skip(search.offset).collect()
        } else {
            sorted.skip(search.offset).collect()
        };
        UserPage {
            users,
            total: search.count.then_some(total),
        }
    }

    pub fn list(
        &self,
        partner: Option<PartnerId>,
        after: Option<UserId>,
        limit: usize,
    ) -> Vec<Arc<User>> {
        let search = UserSearch {
            partner,
            after,
            limit,
            ..UserSearch::default()
        };
        self.search(&search).users
    }
}
