import test from 'ava';
import {loadDestinations, parseDestinations} from '../../../src/config/destinations-file.ts';
import {parseRoute, type RouteChoice} from '../../../src/mail/route.ts';
import {parseRelayUrl} from '../../../src/net/relay-url.ts';
import {
	chooseRoute,
	type DailyShares,
	type Destinations,
	type Network,
	needsHosts,
	type Preference,
} from '../../../src/queue/pace/choose-route.ts';

const shipped = loadDestinations({destinationsFile: null, sourcePools: [], relays: []});
const none: Preference = {pool: null, route: null};
const noWarmUp: DailyShares = () => null;

function relay(url: string) {
	const parsed = parseRelayUrl(url);
	if (!parsed.ok) {
		throw new Error(parsed.problem);
	}

	return parsed.relay;
}

function choice(text: string): RouteChoice {
	const parsed = parseRoute(text);
	if (!parsed.ok) {
		throw new Error(parsed.problem);
	}

	return parsed.route;
}

function destinations(own: object): Destinations {
	const base = {default: {connections: 5, startConnections: 2, mailsPerSession: 50, failures: 3}};
	const parsed = parseDestinations(base, own, {pools: ['otp', 'bulk'], hasRelay: true});
	if (!parsed.ok) {
		throw new Error(parsed.problems.join());
	}

	return parsed.destinations;
}

const smarthost = relay('smtp://app:hunter2@relay.example');
const sources = ['192.0.2.1', '192.0.2.2', '2001:db8::1'].map(address => ({address, hostname: null}));
const network: Network = {
	delivery: 'mx',
	relays: [],
	acceptMeans: 'sent',
	sources: [],
	pools: new Map([
		['otp', ['192.0.2.1', '2001:db8::1']],
		['bulk', ['192.0.2.2']],
	]),
};
const google = ['aspmx.l.google.com', 'alt1.aspmx.l.google.com'];

test('groups domains with the same mail servers and applies the limits of their provider', t => {
	const one = chooseRoute('gmail-user.example', google, none, network, shipped, noWarmUp);
	const other = chooseRoute('other.example', [...google].reverse(), none, network, shipped, noWarmUp);
	t.is(one.site, '(alt1)?.aspmx.l.google.com');
	t.is(other.site, one.site);
	t.is(one.provider, 'google');
	t.like(one.pace, {connections: 5, startConnections: 2, mailsPerSession: 50, perMinute: null});
	t.like(one.terms, {nextHop: {kind: 'mx'}, tls: 'required', sources: [], mailsPerSession: 50});
	t.is(one.warmUp, null);
	t.like(chooseRoute('d.example', ['mx.d.example'], none, network, shipped, noWarmUp), {
		site: 'mx.d.example',
		provider: 'default',
		terms: {tls: 'opportunistic'},
	});
});

test('lets capture mode override every route, and gives the simulator a queue of its own', t => {
	const capture: Network = {...network, delivery: 'capture', relays: [smarthost]};
	const wish: Preference = {pool: 'otp', route: choice('relay')};
	const sent = destinations({shop: {domains: ['d.example'], route: 'smtp://other.example'}});
	t.like(chooseRoute('d.example', ['x'], wish, capture, sent, noWarmUp), {site: 'capture', terms: {sources: []}});
	t.is(chooseRoute('simulator.test', ['x'], wish, {...network, sources}, shipped, noWarmUp).site, 'simulator.test');
	t.false(needsHosts('d.example', wish, capture, sent));
	t.false(needsHosts('simulator.test', none, network, shipped));
});

test('uses the limits and the queue of a relay without an MX lookup', t => {
	const relayed: Network = {...network, delivery: 'relay', relays: [smarthost, relay('smtp://b.example')]};
	t.false(needsHosts('gmail.com', none, relayed, shipped));
	const route = chooseRoute('gmail.com', ['gmail.com'], none, relayed, shipped, noWarmUp);
	t.like(route, {site: 'smarthost app@relay.example:587+b.example:25', provider: 'smarthost', warmUp: null});
	t.like(route.pace, {connections: 20, startConnections: 10, mailsPerSession: 1000});
	t.like(route.terms, {nextHop: {kind: 'relay', acceptMeans: 'sent'}, mailsPerSession: 1000});
	t.false(route.site.includes('hunter2'));
});

const routes: ReadonlyArray<readonly [string, Network['delivery'], Preference['route'], string | null, string]> = [
	['the settings', 'relay', null, null, 'smarthost app@relay.example:587'],
	['the settings', 'mx', null, null, 'mx.d.example'],
	['the workspace beats the settings', 'relay', choice('mx'), null, 'mx.d.example'],
	['the workspace beats the settings', 'mx', choice('relay'), null, 'smarthost app@relay.example:587'],
	['the workspace has a smarthost of its own', 'mx', choice('smtp://own.example'), null, 'smarthost own.example:25'],
	['the destination beats the workspace', 'relay', choice('smtp://own.example'), 'mx', 'mx.d.example'],
	['the destination beats the workspace', 'mx', choice('mx'), 'smtps://for-d.example', 'smarthost for-d.example:465'],
];
for (const [name, delivery, wish, entry, site] of routes) {
	test(`route: ${name} (${delivery}, ${wish?.kind ?? '–'}, ${entry ?? '–'})`, t => {
		for (const match of [{domains: ['d.example']}, {mx: ['.d.example']}]) {
			const file = destinations(entry === null ? {} : {d: {...match, route: entry}});
			const set: Network = {...network, delivery, relays: [smarthost]};
			const preference = {...none, route: wish};
			const route = chooseRoute('d.example', ['mx.d.example'], preference, set, file, noWarmUp);
			t.is(route.site.replace(/ as d$/, ''), site);
			if (site === 'mx.d.example') {
				t.true(needsHosts('d.example', preference, set, file));
			}
		}
	});
}

test('looks up the MX if an entry matches by mail server, unless the domain decides', t => {
	const file = destinations({google: {mx: ['.google.com'], route: 'mx'}, d: {domains: ['d.example']}});
	const relayed: Network = {...network, delivery: 'relay', relays: [smarthost]};
	t.true(needsHosts('shop.example', none, relayed, file));
	t.false(needsHosts('d.example', none, relayed, file));
});

test('delivers directly if the workspace requires the relay but none is configured', t => {
	const route = chooseRoute(
		'd.example',
		['mx.d.example'],
		{...none, route: choice('relay')},
		network,
		shipped,
		noWarmUp,
	);
	t.like(route, {site: 'mx.d.example', terms: {nextHop: {kind: 'mx'}}});
});

test('sources: uses the pool of the destination or the workspace, or all if the pool is unknown', t => {
	const set: Network = {...network, sources};
	const used = (pool: string | null, file = shipped) =>
		chooseRoute('d.example', ['mx.d.example'], {...none, pool}, set, file, noWarmUp);
	t.is(used('bulk').site, 'mx.d.example from 192.0.2.2');
	t.deepEqual(used('otp').terms.sources, [sources[0], sources[2]]);
	t.is(used('otp').site, 'mx.d.example from 192.0.2.1+2001:db8::1');
	t.is(used(null).terms.sources.length, 2);
	t.deepEqual(used('gone'), used(null));
	t.is(used('otp', destinations({d: {domains: ['example'], pool: 'bulk'}})).site, 'mx.d.example as d from 192.0.2.2');
});

test('warm-up: limits a new source for the day and sends the rest through the relay', t => {
	const set: Network = {...network, sources: sources.slice(0, 1), relays: [smarthost]};
	const asked: string[] = [];
	const shares: DailyShares = (address, provider) => {
		asked.push(`${address} ${provider}`);
		return 200;
	};
	const route = chooseRoute('d.example', google, none, set, shipped, shares);
	t.is(route.site, '(alt1)?.aspmx.l.google.com from 192.0.2.1');
	t.like(route.warmUp, {source: '192.0.2.1', group: 'google', perDay: 200});
	t.like(route.warmUp?.overflow, {site: 'smarthost app@relay.example:587 from 192.0.2.1', provider: 'smarthost'});
	t.true(asked.every(one => one === '192.0.2.1 google'));
});

test('warm-up without a relay: sends the rest from established sources of the pool, or waits', t => {
	const set: Network = {...network, sources: sources.slice(0, 2)};
	const shares: DailyShares = address => (address === '192.0.2.1' ? 50 : null);
	const domains = Array.from({length: 40}, (_, n) => `d${n}.example`);
	const routes = domains.map(domain => chooseRoute(domain, [domain], none, set, shipped, shares));
	const fresh = routes.filter(({warmUp}) => warmUp !== null);
	t.true(fresh.length > 5 && fresh.length < 35);
	t.true(fresh.every(({site, warmUp}) => site.endsWith('.1') && warmUp?.overflow?.site.endsWith('.2')));
	t.is(chooseRoute('d.example', ['d.example'], none, set, shipped, () => 50).warmUp?.overflow, null);
});

test('warm-up of both address families: applies the lower limit to both', t => {
	const set: Network = {...network, sources: [sources[0], sources[2]] as typeof sources};
	const shares: DailyShares = address => (address === '192.0.2.1' ? 50 : 20);
	const {warmUp} = chooseRoute('d.example', ['d.example'], none, set, shipped, shares);
	t.deepEqual(warmUp, {source: '2001:db8::1', group: 'default', perDay: 20, overflow: null});
});

test('limits a domain with its own entry separately from others at the same mail servers', t => {
	const own = destinations({partner: {domains: ['partner.example'], connections: 1, perMinute: 6}});
	const one = chooseRoute('partner.example', google, none, network, own, noWarmUp);
	const other = chooseRoute('other.example', google, none, network, own, noWarmUp);
	t.like(one, {site: '(alt1)?.aspmx.l.google.com as partner', pace: {connections: 1, perMinute: 6}});
	t.like(other, {site: '(alt1)?.aspmx.l.google.com', pace: {connections: 5, perMinute: null}});
});
