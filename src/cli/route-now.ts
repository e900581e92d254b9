import {destinationsOf, loadDestinations} from '../config/destinations-file.ts';
import {Families, findMxHosts, mailHosts, type Seeking} from '../deliver/find-hosts.ts';
import {demandsOf} from '../deliver/host.ts';
import {capturedFolder} from '../deliver/local-delivery.ts';
import {createResolver} from '../dns/resolver.ts';
import {createSecureResolver} from '../dns/secure-resolver.ts';
import {storeTime} from '../kit/time.ts';
import type {Pace, QueueKey, Terms} from '../mail/route.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import type {Resolver} from '../net/dns.ts';
import type {Relay} from '../net/relay-url.ts';
import type {Destinations} from '../pace/choose-route.ts';
import {openPolicies, ownAddresses, Router} from '../routing/router.ts';
import {readSite} from '../store/queue/sites.ts';
import {readAsked} from '../store/recipients.ts';
import {version} from './program.ts';
import type {Session} from './session.ts';
import {printable, retryTexts, shortTime, wrapped} from './terminal-text.ts';

type Host = {
	readonly preference: number;
	readonly host: string;
	/** All of them are dialled; scripts read `usable` and `fault`, once for hosts that were not. */
	readonly addresses: ReadonlyArray<{readonly address: string; readonly usable: true}>;
	readonly fault: null;
};

/** A destination queue and one of its recipients: each has an order of hosts of its own. */
export type QueuedFor = QueueKey & Pick<Seeking, 'recipientId'>;

/** Where mail of a workspace for a destination would go at this moment, and how. */
export type RouteNow = QueueKey & {
	/** With whom it shares a pace, the entry of the destinations file, and what that allows. */
	readonly site: string;
	readonly provider: string;
	readonly pace: Omit<Pace, 'reactions' | 'failures'>;
	/** The destination's own rules for retries; null: the settings'. */
	readonly retry: string | null;
	readonly lifetime: string | null;
	/** Where the site is backing off now: until when, in the store's form, and why. */
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
export async function routeNow(
	session: Session,
	router: Router,
	resolver: Resolver,
	recipient: QueuedFor,
): Promise<RouteNow> {
	const {destination, workspaceId} = recipient;
	const {site, provider, pace, retry, terms, warmUp} = await router.routeOf({destination, workspaceId});
	const {connections, startConnections, mailsPerSession, perMinute} = pace;
	return {
		...{destination, workspaceId},
		site,
		provider,
		pace: {connections, startConnections, mailsPerSession, perMinute},
		...retryTexts(retry),
		suspension: await suspensionOf(session, site),
		warmUp: warmUp && {source: warmUp.source, group: warmUp.group, perDay: warmUp.perDay},
		to: await leadsTo(session, resolver, recipient, terms),
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
	recipient: QueuedFor,
	terms: Terms,
): Promise<RouteNow['to']> {
	const {delivery, dataDir} = session.settings();
	const {nextHop, tls, mtaSts, sources} = terms;
	if (recipient.destination === simulatorDomain) {
		return {kind: 'simulator'};
	}
	if (delivery === 'capture') {
		return {kind: 'capture', folder: capturedFolder(dataDir)};
	}
	if (nextHop.kind === 'relay') {
		return {kind: 'relay', relays: nextHop.relays.map(({host, port, secure, tls}) => ({host, port, secure, tls}))};
	}
	return {kind: 'mx', ...(await mxNow(session, resolver, recipient, terms)), terms: {tls, mtaSts, sources}};
}

/** The hosts that an SMTP worker would dial for a recipient, in its order: `findMxHosts` with what the settings and the domain's policies demand. */
async function mxNow(
	session: Session,
	resolver: Resolver,
	{destination, recipientId}: QueuedFor,
	terms: Terms,
): Promise<{readonly hosts: readonly Host[]; readonly fault: string | null}> {
	const settings = session.settings();
	const {mxPort: port, allowPrivateMx, ipv6} = settings;
	const {clock} = session.tools;
	const secureResolver = settings.dane ? openSecureResolver(session) : undefined;
	const asked = await readAsked(await session.reader(), recipientId);
	const found = await findMxHosts(
		destination,
		{recipientId, terms, asked},
		{
			...{resolver, port, allowPrivateMx},
			families: new Families({ipv6, resolver, allowPrivate: allowPrivateMx, clock}),
			ownAddresses: new Set(ownAddresses(settings)),
			demandOf: demandsOf(destination, terms, {secureResolver, port}),
		},
	);
	if (!Array.isArray(found)) {
		return {hosts: [], fault: found.reply};
	}
	// The resolver has kept the answer by which the routes were found.
	const named = await resolver.mx(destination);
	const records = named.kind === 'found' ? mailHosts(named.records, {recipientId}) : [];
	const hosts = [...new Set(found.map(({name: host}) => host))].map(host => ({
		preference: records.find(({exchange}) => exchange === host)?.priority ?? 0,
		host,
		addresses: found.filter(route => route.name === host).map(({address}) => ({address, usable: true as const})),
		fault: null,
	}));
	return {hosts, fault: null};
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

function hostText({preference, host, addresses}: Host): string {
	return `${preference} ${host}  ${addresses.map(({address}) => address).join(', ')}`;
}

function relayText({host, port, secure, tls}: Omit<Relay, 'user' | 'password'>, n: number): string {
	return `${n + 1}. smarthost ${host}:${port}, TLS ${secure ? 'from the first byte' : tls}`;
}

function termsText({tls, mtaSts, sources}: MxTerms): string {
	const policy = mtaSts === null ? '' : `, MTA-STS ${mtaSts.mode} (${mtaSts.mx.join(', ')})`;
	const from = sources.length === 0 ? '' : `, from ${sources.map(({address}) => address).join(', ')}`;
	return `TLS ${tls}${policy}${from}`;
}

function paceTexts({site, provider, pace, retry, lifetime, suspension, warmUp}: RouteNow): string[] {
	const {connections, mailsPerSession, perMinute} = pace;
	const rate = perMinute === null ? '' : `, ${perMinute} mails a minute`;
	return [
		`site ${site} (pace ${provider}): ${connections} connections, ${mailsPerSession} mails on each${rate}`,
		...(retry === null ? [] : [`tried again after ${retry}`]),
		...(lifetime === null ? [] : [`given up after ${lifetime}`]),
		...(suspension
			? [`backing off until ${shortTime(suspension.until)} UTC${suspension.reason ? `: ${suspension.reason}` : ''}`]
			: []),
		...(warmUp ? [`${warmUp.source} is new: ${warmUp.perDay} mails a day to ${warmUp.group}`] : []),
	];
}

const dnsTimeoutMs = 5000;

/** A resolver as the settings say, for one command. */
export function openResolver(session: Session) {
	return createResolver(resolverOptions(session));
}

/** The same for DANE, where MAILCTL_DANE is on. */
function openSecureResolver(session: Session) {
	return createSecureResolver(resolverOptions(session));
}

function resolverOptions(session: Session) {
	const {dnsServers: servers} = session.settings();
	return {servers, timeoutMs: dnsTimeoutMs, tries: 1, clock: session.tools.clock};
}

/**
 * Where each workspace's mail goes, as a daemon with these settings would find it now. `policies`: also what the recipients'
 * MTA-STS policies ask for, which may have to be fetched.
 */
export async function openRouter(session: Session, {policies}: {readonly policies: boolean}): Promise<Router> {
	const settings = session.settings();
	const {clock} = session.tools;
	const store = await session.store();
	const resolver = openResolver(session);
	const destinations = destinationsNow(session);
	const ignore = () => undefined; // The daemon reports a policy that cannot be fetched or stored.
	return new Router({
		settings,
		destinations: () => destinations,
		store,
		vault: await session.vault(),
		resolver,
		policies: policies
			? openPolicies({
					...{settings, store, resolver, clock, version: version()},
					observer: {policyFailed: ignore, storeFailed: ignore},
				})
			: null,
		clock,
	});
}

/** A file that is broken is the daemon's trouble, which goes on with what it had read; a command goes by the shipped one. */
export function destinationsNow(session: Session): Destinations {
	const settings = session.settings();
	const read = destinationsOf(settings);
	if (read.ok) {
		return read.destinations;
	}
	for (const fault of read.faults) {
		session.terminal.warn(`mailctl: ${fault}`);
	}
	return loadDestinations({...settings, destinationsFile: null});
}
