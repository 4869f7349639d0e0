//! Every way in which the test cloud can misbehave, as its clients meet it.

mod bench;

use std::time::Duration;

use bench::{Bench, offerings, request};
use headstart_cloud::Cloud;
use headstart_cloud::error::{CloudError, Reason};
use headstart_cloud::notice::NoticeKind;
use headstart_cloud::port::{LaunchRequest, ProviderId, Taint};
use headstart_testcloud::delay::Delay;
use headstart_testcloud::fault::Order;
use headstart_testcloud::record::Fact;
use headstart_testcloud::settings::{Call, Pattern};

const MINUTE: Duration = Duration::from_mins(1);

fn zone(zone: &str) -> Pattern {
    Pattern { zone: Some(zone.into()), ..Pattern::default() }
}

#[tokio::test]
async fn a_dry_zone_is_avoided_until_its_time_is_over() {
    let bench = Bench::new().await;
    bench.order(Order::Dry { which: zone("test-zone-a"), lasts: Some(MINUTE) }).await;
    let launch = bench.cloud().launch(&request("a")).await.unwrap();
    assert_eq!(launch.instance.offering, offerings()[2]);
    assert_eq!(launch.dry.iter().map(|d| d.lasts).collect::<Vec<_>>(), [Some(MINUTE); 2]);
    bench.advance(MINUTE).await;
    assert_eq!(bench.launch("b").await.offering, offerings()[0]);
}

#[tokio::test]
async fn of_two_droughts_the_longer_is_told() {
    let bench = Bench::new().await;
    bench.order(Order::Dry { which: zone("test-zone-a"), lasts: Some(MINUTE) }).await;
    let spot = Pattern { capacity_type: Some("spot".into()), ..Pattern::default() };
    bench.order(Order::Dry { which: spot.clone(), lasts: None }).await;
    let error = bench.cloud().launch(&request("a")).await.unwrap_err();
    let CloudError::InsufficientCapacity { dry, .. } = error else { panic!("{error}") };
    assert_eq!(dry.iter().map(|d| d.lasts).collect::<Vec<_>>(), [None, Some(MINUTE), None]);
    bench.order(Order::Wet { which: spot }).await;
    assert_eq!(bench.launch("a").await.offering, offerings()[2]);
}

#[tokio::test]
async fn quotas_hold_and_are_freed_by_endings() {
    let bench = Bench::new().await;
    let quotas = [
        Order::Quota { instances: Some(1), vcpus: None, per_type: vec![] },
        Order::Quota { instances: None, vcpus: Some(7), per_type: vec![] },
        Order::Quota { instances: None, vcpus: None, per_type: vec![("s-4x-amd64-linux".into(), 1)] },
    ];
    for (name, quota) in quotas.into_iter().enumerate() {
        bench.order(quota).await;
        let first = bench.launch(&format!("first-{name}")).await;
        let second = request(&format!("second-{name}"));
        let error = bench.cloud().launch(&second).await.unwrap_err();
        let CloudError::InsufficientCapacity { dry, .. } = error else { panic!("{error}") };
        assert_eq!(dry.len(), 3);
        bench.cloud().terminate(&first.id).await.unwrap();
        let second = bench.cloud().launch(&second).await.unwrap().instance;
        bench.cloud().terminate(&second.id).await.unwrap();
    }
}

#[tokio::test]
async fn a_reservation_is_used_up_and_the_catalog_shows_it() {
    let types = r#"[{"name": "big", "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "4", "memory": "8Gi"}, "offerings": [
        {"Price": 0, "ReservationCapacity": 1, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
            {"key": "example.com/reservation-id", "operator": "In", "values": ["r-1"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]},
        {"Price": 1, "zone": "z1", "capacityType": "on-demand"}]}]"#;
    let bench = Bench::selling(types).await;
    let left = async || {
        let catalog = bench.cloud().catalog(&bench::class()).await.unwrap();
        catalog.get("big").unwrap().offerings[0].reservation_capacity
    };
    let keys = bench.cloud().catalog(&bench::class()).await.unwrap();
    let big = keys.get("big").unwrap();
    let keys: Vec<_> = big.offerings.iter().map(|o| headstart_cloud::catalog::key_of(big, o)).collect();
    let launch = async |name| {
        let request = LaunchRequest { offerings: keys.clone(), ..request(name) };
        bench.cloud().launch(&request).await.unwrap().instance
    };
    assert_eq!(left().await, 1);
    let first = launch("a").await;
    assert_eq!((first.offering.reservation.as_deref(), left().await), (Some("r-1"), 0));
    assert_eq!(launch("b").await.offering, keys[1]);
    bench.cloud().terminate(&first.id).await.unwrap();
    assert_eq!(left().await, 1);
}

#[tokio::test]
async fn a_throttled_client_is_served_again_when_it_was_told() {
    let bench = Bench::new().await;
    bench.order(Order::Throttle { per_second: 0.1, burst: 2, call: Some(Call::List) }).await;
    let cloud = bench.cloud();
    cloud.list().await.unwrap();
    cloud.list().await.unwrap();
    let error = cloud.list().await.unwrap_err();
    assert_eq!(error, CloudError::Throttled { retry_after: Some(Duration::from_secs(10)) });
    bench.launch("others-are-not-throttled").await;
    bench.advance(Duration::from_secs(10)).await;
    cloud.list().await.unwrap();
    assert_eq!(bench.fired("throttle").await, 1);
}

#[tokio::test]
async fn a_lost_answer_is_found_again_by_its_token() {
    let bench = Bench::new().await;
    bench.order(Order::LoseAnswers { count: 2, call: Some(Call::Launch) }).await;
    for _ in 0..2 {
        let error = bench.cloud().launch(&request("a")).await.unwrap_err();
        assert!(error.outcome_unknown(), "{error}");
    }
    let found = bench.launch("a").await;
    assert_eq!(bench.cloud().list().await.unwrap(), [found]);
    assert_eq!(bench.fired("lose-answer").await, 2);
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_lost_too() {
    let bench = Bench::new().await;
    bench.order(Order::Slow { delay: Delay::Fixed(MINUTE) }).await;
    // On a busy machine the client may give up before the cloud has even heard of it; that is lost as well.
    while bench.fired("slow").await == 0 {
        let error = bench.impatient(Duration::from_millis(50)).launch(&request("a")).await.unwrap_err();
        assert!(error.outcome_unknown(), "{error}");
    }
    bench.order(Order::Slow { delay: Delay::NONE }).await;
    assert_eq!(bench.cloud().list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn lists_show_the_past_when_they_are_stale() {
    let bench = Bench::new().await;
    let old = bench.launch("old").await;
    bench.advance(MINUTE).await;
    bench.order(Order::StaleList { lag: Delay::Fixed(Duration::from_secs(30)) }).await;
    let new = bench.launch("new").await;
    bench.cloud().terminate(&old.id).await.unwrap();
    let ids = async || bench.cloud().list().await.unwrap().into_iter().map(|i| i.id).collect::<Vec<_>>();
    assert_eq!(ids().await, [old.id], "what was ended is still shown, what is new is not yet");
    bench.advance(Duration::from_secs(31)).await;
    assert_eq!(ids().await, [new.id]);
}

#[tokio::test]
async fn an_interrupted_instance_lives_as_long_as_announced() {
    let bench = Bench::new().await;
    let id = bench.launch("a").await.id;
    bench.order(Order::Interrupt { id: id.0.clone(), left: MINUTE }).await;
    bench.advance(Duration::from_secs(59)).await;
    bench.cloud().get(&id).await.unwrap();
    bench.advance(Duration::from_secs(1)).await;
    assert!(bench.cloud().get(&id).await.unwrap_err().is_not_found());
    let notices = bench.cloud().notices(None, Duration::ZERO).await.unwrap().notices;
    let kinds: Vec<NoticeKind> = notices.into_iter().map(|notice| notice.kind).collect();
    assert_eq!(kinds, [NoticeKind::Interruption { left: MINUTE }, NoticeKind::Died]);
}

#[tokio::test]
async fn a_reader_who_waits_hears_news_at_once() {
    let bench = Bench::new().await;
    let id = bench.launch("a").await.id;
    let reader = bench.cloud();
    let waiting = tokio::spawn(async move { reader.notices(None, Duration::from_secs(20)).await });
    bench.order(Order::Rebalance { id: id.0.clone() }).await;
    let news = waiting.await.unwrap().unwrap().notices;
    assert_eq!((&news[0].instance, &news[0].kind), (&id, &NoticeKind::Rebalance));
}

#[tokio::test]
async fn instances_join_after_their_delay_or_never() {
    let bench = Bench::new().await;
    bench.order(Order::JoinDelay { delay: Delay::Fixed(MINUTE) }).await;
    bench.order(Order::NeverJoin { count: 1 }).await;
    bench.launch("never").await;
    bench.launch("later").await;
    let joined = || -> Vec<String> {
        let ids = bench.books().records.into_iter().filter_map(|record| match record.fact {
            Fact::Joined { id } => Some(id),
            _ => None,
        });
        ids.collect()
    };
    bench.advance(Duration::from_secs(59)).await;
    assert_eq!(joined(), Vec::<String>::new());
    bench.advance(Duration::from_secs(1)).await;
    assert_eq!(joined(), ["i-00000002"]);
    bench.advance(MINUTE * 60).await;
    assert_eq!(joined(), ["i-00000002"]);
}

#[tokio::test]
async fn nodes_can_be_worse_than_promised() {
    let bench = Bench::new().await;
    let taint = Taint { key: "surprise".into(), value: String::new(), effect: "NoSchedule".into() };
    bench.order(Order::WrongTaint { taint: taint.clone(), count: 1 }).await;
    bench.order(Order::LessAllocatable { percent: 50, count: 1 }).await;
    let promised = bench.launch("a").await.allocatable;
    let launched = bench.books().records.into_iter().find_map(|record| match record.fact {
        Fact::Launched(launched) => Some(launched),
        _ => None,
    });
    let node = launched.unwrap().node;
    assert!(node.taints.contains(&taint));
    assert_eq!(node.allocatable.get("cpu").millis() * 2, promised.get("cpu").millis());
}

#[tokio::test]
async fn an_older_image_has_drifted() {
    let bench = Bench::new().await;
    let old = bench.launch("old").await.id;
    bench.order(Order::Image { name: "image-2".into() }).await;
    let new = bench.launch("new").await.id;
    let drift = async |id: &ProviderId| bench.cloud().drift(id, &bench::class()).await.unwrap();
    assert_eq!(drift(&old).await.as_deref(), Some("ImageDrift"));
    assert_eq!(drift(&new).await, None);
}

#[tokio::test]
async fn clearing_lifts_everything() {
    let bench = Bench::new().await;
    bench.order(Order::Dry { which: Pattern::default(), lasts: None }).await;
    bench.order(Order::Unready { class: "default".into(), message: "no".into() }).await;
    bench.order(Order::Deny { count: 9, call: None }).await;
    assert_eq!(bench.cloud().launch(&request("a")).await.unwrap_err().kind(), "denied");
    bench.order(Order::Clear).await;
    bench.launch("a").await;
}

#[tokio::test]
async fn nonsense_is_refused_with_a_reason() {
    let bench = Bench::new().await;
    let admin = headstart_cloud::testcloud::Admin::new(&bench.endpoint()).unwrap();
    let error = admin.order(&serde_json::json!({ "do": "explode" })).await.unwrap_err();
    let CloudError::Permanent { reason: Reason::InvalidRequest, message } = error else { panic!("{error}") };
    assert!(message.contains("unknown variant `explode`"), "{message}");
    let error = admin.order(&Order::Kill { id: "i-9".into() }).await.unwrap_err();
    assert!(error.is_not_found());
}
