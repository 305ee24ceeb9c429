//! The catalogue of the tests.

use chrono::DateTime;

use crate::catalog::{
    Asset, CatalogImport, Condition, Effects, Glob, Livestream, Offer, OfferKind, Pack, Playlists,
    Rule, Spanned, Window,
};
use playgate_types::{AssetId, Country, LivestreamId, OfferId, UnixSeconds, Zone};

pub(super) fn catalogue() -> CatalogImport {
    let stockholm = || Some(Zone::stored("Europe/Stockholm"));
    let mut livestreams = ["news", "strict", "audio", "pay"].map(livestream);
    let [news, strict, audio, _] = &mut livestreams;
    (news.own_zone, news.catchup_days, news.start_over) = (stockholm(), 7, true);
    (strict.own_zone, strict.catchup_days, strict.verify_age) = (stockholm(), 1, true);
    audio.live_rights = false;

    let always = Window::default();
    let january = window(Some("2026-01-01"), Some("2026-01-11"));
    let assets = [
        asset("free", Some(0), always),
        asset("adult", Some(18), always),
        asset("unrated", None, always),
        asset("premium", Some(0), january),
        asset("later", None, window(Some("2026-02-01"), None)),
        asset("nordic", None, always),
        asset("nowhere", None, always),
        asset("unoffered", None, always),
    ];

    let spring = window(Some("2026-03-01"), Some("2026-04-01"));
    let everything = ["free", "adult", "unrated", "later"];
    let offers = [
        offer(
            "everybody",
            OfferKind::Default,
            &["news", "strict", "audio"],
            &everything,
        ),
        Offer {
            duration_days: Some(30),
            ..offer("month", OfferKind::Subscription, &["pay"], &["premium"])
        },
        Offer {
            countries: ["NO", "SE"].map(country).into(),
            ..offer(
                "north",
                OfferKind::Subscription,
                &[],
                &["nordic", "nowhere"],
            )
        },
        Offer {
            countries: vec![country("IT")],
            ..offer("south", OfferKind::Pass, &[], &["nordic"])
        },
        Offer {
            sale: spring,
            ..offer("campaign", OfferKind::Default, &["pay"], &[])
        },
    ];

    let blackout = Effects {
        live: Some(false),
        ..Effects::default()
    };
    let gone = Effects {
        catchup: Some(false),
        ..blackout
    };
    CatalogImport {
        livestreams: livestreams.map(spanned).into(),
        assets: assets.map(spanned).into(),
        offers: offers.map(spanned).into(),
        rules: [rule("Blackout*", blackout), rule("Gone*", gone)]
            .map(spanned)
            .into(),
        ..CatalogImport::default()
    }
}

fn spanned<T>(item: T) -> Spanned<T> {
    Spanned { line: 0, item }
}

fn livestream(id: &str) -> Livestream {
    Livestream::new(LivestreamId::parse(id).unwrap(), id.to_owned())
}

fn asset(id: &str, pg_age: Option<u8>, available: Window) -> Asset {
    Asset {
        id: AssetId::parse(id).unwrap(),
        title: id.to_owned(),
        images: Vec::new(),
        pg_age,
        available,
        encrypted: false,
        keys: Vec::new(),
        playlist: Playlists::default(),
        streams: None,
    }
}

fn offer(id: &str, kind: OfferKind, livestreams: &[&str], assets: &[&str]) -> Offer {
    let livestreams = livestreams.iter().map(|id| LivestreamId::parse(id));
    let assets = assets.iter().map(|id| AssetId::parse(id));
    Offer {
        id: OfferId::parse(id).unwrap(),
        kind,
        pack: Pack::Listed {
            livestreams: livestreams.collect::<Result<_, _>>().unwrap(),
            assets: assets.collect::<Result<_, _>>().unwrap(),
        },
        countries: Vec::new(),
        sale: Window::default(),
        duration_days: None,
    }
}

fn rule(title: &str, effects: Effects) -> Rule {
    let condition = Condition {
        title: Some(Glob::parse(title).unwrap()),
        ..Condition::default()
    };
    Rule { condition, effects }
}

fn country(code: &str) -> Country {
    Country::parse(code).unwrap()
}

fn window(from: Option<&str>, to: Option<&str>) -> Window {
    let midnight = |day: &str| {
        let time = DateTime::parse_from_rfc3339(&format!("{day}T00:00:00Z")).unwrap();
        UnixSeconds(time.timestamp())
    };
    Window {
        from: from.map(midnight),
        to: to.map(midnight),
    }
}
