//! The simulated cloud: tokens, offerings that run dry, instances, and books of every one that ever was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_cloud::Catalog;
use headstart_core::cloud::{
    CloudError, DryOffering, Instance, Launch, LaunchRequest, OfferingKey, ProviderId, Reason, State,
    labels_of,
};

use crate::timeline::Moment;

/// What every provider id starts with.
const SCHEME: &str = "sim://";

/// The cloud.
#[derive(Debug)]
pub struct Cloud {
    catalog: Arc<Catalog>,
    machines: Vec<Machine>,
    living: BTreeSet<usize>,
    tokens: BTreeMap<String, usize>,
    droughts: Vec<Drought>,
    flapping: BTreeMap<OfferingKey, Moment>,
    unready: Option<Moment>,
}

/// An instance with its whole life.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The instance as it was launched.
    pub instance: Instance,
    /// What was asked for.
    pub request: LaunchRequest,
    /// The uid of the NodeClaim it really is for; empty if there was none when it was launched.
    pub claim_uid: String,
    /// When it was launched.
    pub launched: Moment,
    /// When it began to end.
    pub ending: Option<Moment>,
    /// When it ended.
    pub ended: Option<Moment>,
    /// The restarts it was asked for.
    pub reboots: BTreeSet<String>,
    dry: Vec<DryOffering>,
}

/// Offerings without capacity; what is left out is any.
#[derive(Clone, Debug)]
pub struct Drought {
    /// The zone.
    pub zone: Option<String>,
    /// The capacity type.
    pub capacity_type: Option<String>,
    /// Until when.
    pub until: Moment,
}

/// What a launch did.
#[derive(Debug)]
pub enum Bought {
    /// A new instance, by its place in the books.
    New(usize),
    /// The one its token launched before.
    Again(usize),
}

impl Cloud {
    /// A cloud that sells a catalogue.
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Self {
            catalog,
            machines: Vec::new(),
            living: BTreeSet::new(),
            tokens: BTreeMap::new(),
            droughts: Vec::new(),
            flapping: BTreeMap::new(),
            unready: None,
        }
    }

    /// What it sells.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Launches an instance in the first offering with capacity, or finds the one its token launched before.
    pub fn launch(&mut self, now: Moment, request: &LaunchRequest) -> Result<(Launch, Bought), CloudError> {
        if let Some(&place) = self.tokens.get(&request.token.0) {
            return self.machines[place].again(request).map(|launch| (launch, Bought::Again(place)));
        }
        if self.unready.is_some_and(|until| until > now) {
            let message = "the class was made unready on purpose".to_owned();
            return Err(CloudError::ClassNotReady { class: request.class.clone(), message });
        }
        if request.offerings.is_empty() {
            return Err(invalid("the list of offerings is empty".to_owned()));
        }
        let mut dry = Vec::new();
        for key in &request.offerings {
            match self.lasts(now, key) {
                None => return self.buy(now, request, key, dry),
                Some(until) => {
                    let left = std::time::Duration::from_millis(until.since(now));
                    dry.push(DryOffering {
                        offering: key.clone(),
                        lasts: (until.0 < u64::MAX).then_some(left),
                    });
                }
            }
        }
        let message = format!("no capacity for {} and {} more", request.offerings[0], dry.len() - 1);
        Err(CloudError::InsufficientCapacity { dry, message })
    }

    /// One instance.
    pub fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        self.place(id).map(|place| self.machines[place].view())
    }

    /// All instances as they were some time ago.
    pub fn list(&self, then: Moment) -> Vec<Instance> {
        let was = |m: &&Machine| m.launched <= then && m.ended.is_none_or(|ended| ended > then);
        self.machines.iter().filter(was).map(Machine::view).collect()
    }

    /// Begins to end an instance; tells its place in the books if it has only just begun.
    pub fn terminate(&mut self, now: Moment, id: &ProviderId) -> Result<Option<usize>, CloudError> {
        let place = self.place(id)?;
        let machine = &mut self.machines[place];
        if machine.ending.is_some() {
            return Ok(None);
        }
        machine.ending = Some(now);
        Ok(Some(place))
    }

    /// Restarts an instance, once for each operation; tells its place in the books if this one is new.
    pub fn reboot(&mut self, id: &ProviderId, operation: &str) -> Result<Option<usize>, CloudError> {
        let place = self.place(id)?;
        let is_new = self.machines[place].reboots.insert(operation.to_owned());
        Ok(is_new.then_some(place))
    }

    /// An instance is gone; tells whether it was still there.
    pub fn end(&mut self, now: Moment, place: usize) -> bool {
        let machine = &mut self.machines[place];
        let was_there = machine.ended.is_none();
        machine.ending.get_or_insert(now);
        machine.ended.get_or_insert(now);
        self.living.remove(&place);
        was_there
    }

    /// Writes down for whom an instance really is.
    pub fn attribute(&mut self, place: usize, claim_uid: String) {
        self.machines[place].claim_uid = claim_uid;
    }

    /// Some offerings run dry.
    pub fn dry(&mut self, drought: Drought) {
        self.droughts.push(drought);
    }

    /// One offering runs dry.
    pub fn flap(&mut self, key: OfferingKey, until: Moment) {
        self.flapping.insert(key, until);
    }

    /// No node class is ready until then.
    pub fn unready(&mut self, until: Moment) {
        self.unready = Some(until);
    }

    /// All is well again; droughts in force last for ever if so wished.
    pub fn calm(&mut self, now: Moment, drought_stays: bool) {
        self.flapping.clear();
        self.unready = None;
        self.droughts.retain(|drought| drought_stays && drought.until > now);
        for drought in &mut self.droughts {
            drought.until = Moment(u64::MAX);
        }
    }

    /// Whether an offering has capacity.
    pub fn has(&self, now: Moment, key: &OfferingKey) -> bool {
        self.lasts(now, key).is_none()
    }

    /// Every instance that ever was.
    pub fn books(&self) -> &[Machine] {
        &self.machines
    }

    /// Every instance that has not ended.
    pub fn living(&self) -> impl Iterator<Item = &Machine> {
        self.living.iter().map(|place| &self.machines[*place])
    }

    fn place(&self, id: &ProviderId) -> Result<usize, CloudError> {
        let number =
            id.0.strip_prefix(SCHEME).and_then(|rest| rest.strip_prefix("i-")?.parse::<usize>().ok());
        let place = number.filter(|place| self.living.contains(place));
        place.ok_or_else(|| CloudError::NotFound { id: id.clone() })
    }

    /// Until when an offering has no capacity, if so.
    fn lasts(&self, now: Moment, key: &OfferingKey) -> Option<Moment> {
        let concerns =
            |wanted: &Option<String>, have: &str| wanted.as_deref().is_none_or(|wanted| wanted == have);
        let droughts = self
            .droughts
            .iter()
            .filter(|d| concerns(&d.zone, &key.zone) && concerns(&d.capacity_type, &key.capacity_type));
        let flapping = self.flapping.get(key).copied();
        droughts.map(|d| d.until).chain(flapping).filter(|until| *until > now).max()
    }

    fn buy(
        &mut self,
        now: Moment,
        request: &LaunchRequest,
        key: &OfferingKey,
        dry: Vec<DryOffering>,
    ) -> Result<(Launch, Bought), CloudError> {
        let Some((instance_type, offering)) = self.catalog.offering(key) else {
            return Err(invalid(format!("the catalog has no offering {key}")));
        };
        let place = self.machines.len();
        let mut capacity = instance_type.capacity.clone();
        if let Some(replaced) = &offering.capacity_override {
            capacity.merge(replaced);
        }
        let instance = Instance {
            id: ProviderId(format!("{SCHEME}i-{place:06}")),
            token: Some(request.token.clone()),
            offering: key.clone(),
            state: State::Running,
            capacity,
            allocatable: instance_type.allocatable_with(offering),
            labels: labels_of(instance_type, offering),
            tags: request.all_tags(),
            image: None,
        };
        self.machines.push(Machine {
            instance: instance.clone(),
            request: request.clone(),
            claim_uid: String::new(),
            launched: now,
            ending: None,
            ended: None,
            reboots: BTreeSet::new(),
            dry: dry.clone(),
        });
        self.living.insert(place);
        self.tokens.insert(request.token.0.clone(), place);
        Ok((Launch { instance, dry }, Bought::New(place)))
    }
}

impl Machine {
    /// The name of its Node.
    pub fn node_name(&self) -> &str {
        self.instance.id.0.strip_prefix(SCHEME).unwrap_or_default()
    }

    /// Whether offerings that were wished for before the one that was bought had no capacity.
    pub fn fell_through(&self) -> bool {
        !self.dry.is_empty()
    }

    /// The instance as the cloud shows it.
    fn view(&self) -> Instance {
        let state = if self.ending.is_some() { State::Ending } else { State::Running };
        Instance { state, ..self.instance.clone() }
    }

    /// The answer to a token that was used before.
    fn again(&self, request: &LaunchRequest) -> Result<Launch, CloudError> {
        let refused = |reason, message| Err(CloudError::Permanent { reason, message });
        let (id, token) = (&self.instance.id, &request.token);
        if self.request.digest() != request.digest() {
            let message =
                format!("token {token} launched {id} from another list of offerings or for another class");
            return refused(Reason::TokenReused, message);
        }
        if self.ended.is_some() {
            return refused(Reason::InstanceEnded, format!("token {token} launched {id}, which has ended"));
        }
        Ok(Launch { instance: self.view(), dry: self.dry.clone() })
    }
}

fn invalid(message: String) -> CloudError {
    CloudError::Permanent { reason: Reason::InvalidRequest, message }
}

#[cfg(test)]
mod tests {
    use headstart_cloud::catalog::Source;
    use headstart_core::cloud::{ClassRef, NodeTemplate, Token};
    use headstart_core::resources::Resources;

    use super::*;

    const NOW: Moment = Moment(1000);

    fn cloud() -> Cloud {
        Cloud::new(Arc::new(Catalog::load(&Source::Kwok).unwrap()))
    }

    fn offering(capacity_type: &str) -> OfferingKey {
        OfferingKey {
            instance_type: "c-1x-amd64-linux".to_owned(),
            zone: "test-zone-a".to_owned(),
            capacity_type: capacity_type.to_owned(),
            reservation: None,
        }
    }

    fn request(token: &str, offerings: &[&str]) -> LaunchRequest {
        let class = ClassRef { group: "g".to_owned(), kind: "K".to_owned(), name: "n".to_owned() };
        LaunchRequest {
            token: Token(token.to_owned()),
            claim: "claim".to_owned(),
            pool: "pool".to_owned(),
            class,
            offerings: offerings.iter().map(|kind| offering(kind)).collect(),
            node: NodeTemplate::default(),
            requests: Resources::new(),
            tags: BTreeMap::new(),
        }
    }

    fn launch(cloud: &mut Cloud, token: &str, offerings: &[&str]) -> Result<Launch, CloudError> {
        cloud.launch(NOW, &request(token, offerings)).map(|(launch, _)| launch)
    }

    #[test]
    fn a_token_is_good_for_one_instance_and_one_request() {
        let mut cloud = cloud();
        let first = launch(&mut cloud, "t", &["spot", "on-demand"]).unwrap();
        assert_eq!(launch(&mut cloud, "t", &["spot", "on-demand"]).unwrap(), first);
        assert_ne!(launch(&mut cloud, "u", &["spot"]).unwrap().instance.id, first.instance.id);
        let reused = launch(&mut cloud, "t", &["spot"]).unwrap_err();
        assert!(matches!(reused, CloudError::Permanent { reason: Reason::TokenReused, .. }));
        let place = cloud.terminate(NOW, &first.instance.id).unwrap().unwrap();
        assert_eq!(cloud.terminate(NOW, &first.instance.id), Ok(None), "it is ending already");
        assert!(cloud.end(NOW, place) && !cloud.end(NOW, place));
        assert!(cloud.get(&first.instance.id).unwrap_err().is_not_found());
        let ended = launch(&mut cloud, "t", &["spot", "on-demand"]).unwrap_err();
        assert!(matches!(ended, CloudError::Permanent { reason: Reason::InstanceEnded, .. }));
    }

    #[test]
    fn the_first_offering_with_capacity_is_bought() {
        let mut cloud = cloud();
        cloud.flap(offering("spot"), NOW + 5);
        let launched = launch(&mut cloud, "t", &["spot", "on-demand"]).unwrap();
        assert_eq!(launched.instance.offering, offering("on-demand"));
        assert_eq!(launched.dry.len(), 1);
        cloud.dry(Drought { zone: Some("test-zone-a".to_owned()), capacity_type: None, until: NOW + 9 });
        let none = launch(&mut cloud, "u", &["spot", "on-demand"]).unwrap_err();
        assert!(matches!(none, CloudError::InsufficientCapacity { dry, .. } if dry.len() == 2));
        assert!(cloud.has(NOW + 9, &offering("spot")));
    }

    #[test]
    fn lists_show_the_past() {
        let mut cloud = cloud();
        let id = launch(&mut cloud, "t", &["spot"]).unwrap().instance.id;
        assert_eq!((cloud.list(Moment(999)).len(), cloud.list(NOW).len()), (0, 1));
        let place = cloud.terminate(NOW, &id).unwrap().unwrap();
        cloud.end(NOW + 7, place);
        assert_eq!((cloud.list(NOW + 6).len(), cloud.list(NOW + 7).len()), (1, 0));
    }
}
