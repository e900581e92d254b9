import type {Ways} from '../daemon/ways.ts';
import {capturedFolder} from '../deliver/capture.ts';
import type {DnsAnswer, Resolver} from '../mail/dns.ts';
import {isPublicAddress} from '../mail/public-address.ts';
import type {Relay} from '../mail/relay-url.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import {storeTime} from '../mail/time.ts';
import type {LaneKey, Pace, Terms} from '../mail/way.ts';
import {readSite} from '../store/sites.ts';
import type {Session} from './session.ts';
import {printable, shortTime, wrapped} from './text.ts';

type Host = {
	readonly preference: number;
	readonly host: string;
	readonly addresses: ReadonlyArray<{readonly address: string; readonly usable: boolean}>;
	/** Why there are none. */
	readonly fault: string | null;
};

/** Where mail of a workspace for a destination would go at this moment, and how. */
export type RouteNow = LaneKey & {
	/** With whom it shares a pace, the entry of the destinations file, and what that allows. */
	readonly site: string;
	readonly provider: string;
	readonly pace: Omit<Pace, 'reactions' | 'failures'>;
	/** Where the site is left alone at this moment: until when, in the store's form, and why. */
	readonly suspension: {readonly until: string; readonly reason: string | null} | null;
	readonly warmUp: {readonly source: string; readonly group: string; readonly perDay: number} | null;
	readonly to:
		| {readonly kind: 'mx'; readonly hosts: readonly Host[]; readonly fault: string | null; readonly terms: MxTerms}
		| {readonly kind: 'relay'; readonly relays: ReadonlyArray<Omit<Relay, 'user' | 'password'>>}
		| {readonly kind: 'capture'; readonly folder: string}
		| {readonly kind: 'simulator'};
};

type MxTerms = Pick<Terms, 'tls' | 'mtaSts' | 'sources'>;

/** Asks DNS as the daemon would, from this machine. */
export async function routeNow(session: Session, ways: Ways, resolver: Resolver, key: LaneKey): Promise<RouteNow> {
	const {site, provider, pace, terms, warmUp} = await ways.wayOf(key);
	const {connections, startConnections, mailsPerSession, perMinute} = pace;
	return {
		...key,
		site,
		provider,
		pace: {connections, startConnections, mailsPerSession, perMinute},
		suspension: await suspensionOf(session, site),
		warmUp: warmUp && {source: warmUp.source, group: warmUp.group, perDay: warmUp.perDay},
		to: await leadsTo(session, resolver, key.destination, terms),
	};
}

async function suspensionOf(session: Session, site: string): Promise<RouteNow['suspension']> {
	const saved = await readSite(await session.reader(), site);
	const until = saved?.suspendedUntil ?? null;
	return saved && until !== null && until > session.tools.clock.now()
		? {until: storeTime(until), reason: saved.reason}
		: null;
}

async function leadsTo(
	session: Session,
	resolver: Resolver,
	destination: string,
	{route, tls, mtaSts, sources}: Terms,
): Promise<RouteNow['to']> {
	const {delivery, dataDir, allowPrivateMx} = session.settings();
	if (destination === simulatorDomain) {
		return {kind: 'simulator'};
	}
	if (delivery === 'capture') {
		return {kind: 'capture', folder: capturedFolder(dataDir)};
	}
	if (route.kind === 'relay') {
		return {kind: 'relay', relays: route.relays.map(({host, port, secure, tls}) => ({host, port, secure, tls}))};
	}
	return {kind: 'mx', ...(await mxNow(resolver, destination, allowPrivateMx)), terms: {tls, mtaSts, sources}};
}

type Hosts = {readonly hosts: readonly Host[]; readonly fault: string | null};

async function mxNow(resolver: Resolver, destination: string, anyAddress: boolean): Promise<Hosts> {
	const answer = await resolver.mx(destination);
	const none = (fault: string): Hosts => ({hosts: [], fault});
	switch (answer.kind) {
		case 'failed':
			return none(`the look-up of ${destination} MX failed: ${answer.code}`);
		case 'nxdomain':
			return none(`${destination} does not exist`);
		case 'nodata':
			return {hosts: [await hostNow(resolver, 0, destination, anyAddress)], fault: null};
		case 'found': {
			const named = answer.records
				.map(({exchange, priority}) => ({host: exchange.toLowerCase().replace(/\.$/, ''), priority}))
				.filter(({host}) => host !== '')
				.sort((a, b) => a.priority - b.priority || (a.host < b.host ? -1 : 1));
			return named.length === 0
				? none(`${destination} takes no mail (null MX)`)
				: {
						hosts: await Promise.all(named.map(({host, priority}) => hostNow(resolver, priority, host, anyAddress))),
						fault: null,
					};
		}
	}
}

async function hostNow(resolver: Resolver, preference: number, host: string, anyAddress: boolean): Promise<Host> {
	const answers = await Promise.all([resolver.aaaa(host), resolver.a(host)]);
	const addresses = answers
		.flatMap(answer => (answer.kind === 'found' ? answer.records : []))
		.map(address => ({address, usable: anyAddress || isPublicAddress(address)}));
	return {preference, host, addresses, fault: addresses.length > 0 ? null : faultOf(answers)};
}

function faultOf(answers: ReadonlyArray<DnsAnswer<string>>): string {
	const failed = answers.find(answer => answer.kind === 'failed');
	return failed === undefined ? 'has no address' : `the look-up failed: ${failed.code}`;
}

/** For people, indented. */
export function routeLines(route: RouteNow, width: number): string[] {
	const lines = (text: string) => wrapped(printable(text), width, '  ');
	const {to} = route;
	switch (to.kind) {
		case 'simulator':
			return lines('simulated: nothing leaves the machine');
		case 'capture':
			return lines(`captured in ${to.folder}: nothing leaves the machine`);
		case 'relay':
			return [...to.relays.flatMap((relay, n) => lines(relayText(relay, n))), ...paceTexts(route).flatMap(lines)];
		case 'mx':
			return [
				...(to.fault === null ? [] : lines(to.fault)),
				...to.hosts.flatMap(host => lines(hostText(host))),
				...lines(termsText(to.terms)),
				...paceTexts(route).flatMap(lines),
			];
	}
}

function hostText({preference, host, addresses, fault}: Host): string {
	const shown = addresses.map(({address, usable}) => (usable ? address : `${address} (not public: never used)`));
	return `${preference} ${host}  ${fault ?? shown.join(', ')}`;
}

function relayText({host, port, secure, tls}: Omit<Relay, 'user' | 'password'>, n: number): string {
	return `${n + 1}. smarthost ${host}:${port}, TLS ${secure ? 'from the first byte' : tls}`;
}

function termsText({tls, mtaSts, sources}: MxTerms): string {
	const policy = mtaSts === null ? '' : `, MTA-STS ${mtaSts.mode} (${mtaSts.mx.join(', ')})`;
	const from = sources.length === 0 ? '' : `, from ${sources.map(({address}) => address).join(', ')}`;
	return `TLS ${tls}${policy}${from}`;
}

function paceTexts({site, provider, pace, suspension, warmUp}: RouteNow): string[] {
	const {connections, mailsPerSession, perMinute} = pace;
	const rate = perMinute === null ? '' : `, ${perMinute} mails a minute`;
	return [
		`site ${site} (pace ${provider}): ${connections} connections, ${mailsPerSession} mails on each${rate}`,
		...(suspension
			? [`left alone until ${shortTime(suspension.until)} UTC${suspension.reason ? `: ${suspension.reason}` : ''}`]
			: []),
		...(warmUp ? [`${warmUp.source} is new: ${warmUp.perDay} mails a day to ${warmUp.group}`] : []),
	];
}
