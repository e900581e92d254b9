import {parseRelayUrl, type Relay, relayScheme} from '../net/relay-url.ts';
import type {Priority} from './message.ts';
import type {OwnRetry} from './retry.ts';

/** Where the mail of a workspace, or for a destination, is to go. */
export type RouteChoice =
	/** To the hosts of the recipient's domain. */
	| {readonly kind: 'mx'}
	/** To the smarthosts of MAILCTL_RELAY_URL. */
	| {readonly kind: 'relay'}
	/** To smarthosts of its own, in this order. */
	| {readonly kind: 'smarthosts'; readonly relays: readonly Relay[]};

type ParsedRoute =
	| {readonly ok: true; readonly route: RouteChoice}
	/** A clause after the name of what was parsed; it never repeats a URL, which may hold a password. */
	| {readonly ok: false; readonly fault: string};

/** `mx`, `relay`, or URLs of smarthosts between commas. */
export function parseRoute(text: string): ParsedRoute {
	if (text === 'mx' || text === 'relay') {
		return {ok: true, route: {kind: text}};
	}

	if (!relayScheme.test(text)) {
		return {
			ok: false,
			fault: 'is neither mx nor relay nor the URL of a smarthost (smtp://…, smtps://…, ses://…, mailgun+https://… or postmark+https://…)',
		};
	}

	const relays: Relay[] = [];
	for (const [index, part] of text.split(',').entries()) {
		const parsed = parseRelayUrl(part.trim());
		if (!parsed.ok) {
			return {ok: false, fault: index === 0 ? parsed.fault : `${parsed.fault} (URL ${index + 1})`};
		}

		relays.push(parsed.relay);
	}

	return {ok: true, route: {kind: 'smarthosts', relays}};
}

/**
 * What stands before the password of each URL of a route, and the password, percent-encoded. Of `+https` it has no
 * user.
 */
const logins = /(\+https:\/\/|:\/\/[^:@/?#,]*:)([^@/?#,]*)@/gi;

/**
 * A workspace's route for the store, or back from it: only the passwords in it are put through `change`, so that what
 * is stored can be shown (masked) without a key.
 */
export function withPasswords(route: string, change: (password: string) => string): string {
	return route.replace(
		logins,
		(_, start: string, password: string) => `${start}${encodeURIComponent(change(decodeURIComponent(password)))}@`,
	);
}

/** Whether the route holds a password. */
export function hasPassword(route: string): boolean {
	return route.search(logins) !== -1;
}

/**
 * An address of this machine that connections are made from, and the name said in EHLO there; null: MAILCTL_HOSTNAME.
 */
export type Source = {readonly address: string; readonly hostname: string | null};

/** The demands of an MTA-STS policy (RFC 8461 §3.2); a policy in mode `none` has no demands. */
export type MtaSts = {readonly mode: 'enforce' | 'testing'; readonly mx: readonly string[]};

/**
 * How a recipient's mail may travel: decided in the main thread, sent along with the mail, obeyed by the SMTP worker.
 */
export type Terms = {
	/** To the hosts of the recipient's domain, or to the first of these smarthosts that takes it. */
	readonly nextHop:
		| {readonly kind: 'mx'}
		| {readonly kind: 'relay'; readonly relays: readonly Relay[]; readonly acceptMeans: 'sent' | 'delivered'};
	/** What the operator demands of the hosts of a domain; a smarthost's own URL says it for itself. */
	readonly tls: 'opportunistic' | 'unverified' | 'required';
	readonly mtaSts: MtaSts | null;
	/** Addresses to connect from, at most one of each family; empty: the system chooses. */
	readonly sources: readonly Source[];
	/** Mails on one connection. */
	readonly mailsPerSession: number;
};

/** What is done for a while after a reply that a rule of a destination knows. */
export type PaceReaction =
	/** Nothing is sent to the site. `advice`: what an operator can do about it, a clause. */
	| {readonly kind: 'suspend'; readonly forMs: number; readonly advice?: string}
	/** A limit of mails per minute, and of connections. */
	| {readonly kind: 'slow'; readonly perMinute: number; readonly connections: number; readonly forMs: number}
	/** A limit of mails on one connection, from now on. */
	| {readonly kind: 'mails_per_session'; readonly mails: number};

/** How much a site gets at most (`config/destinations.json`; docs/reference/pacing.md). */
export type Pace = {
	/** Connections at once. */
	readonly connections: number;
	/** Connections to begin with. */
	readonly startConnections: number;
	readonly mailsPerSession: number;
	/** Mails per minute; null: no limit. */
	readonly perMinute: number | null;
	/** Tries in a row that no host answered, after which the site backs off. */
	readonly failures: number;
	/** The text of a reply (its code first) and what follows from it; the first that matches counts. */
	readonly reactions: ReadonlyArray<{readonly text: RegExp; readonly reaction: PaceReaction}>;
};

/** Where one workspace's mail for one destination goes, with whom it shares a pace, and how fast. */
export type Route = {
	/** The key of the pace: the MX hosts in order of their names (R8.1) and the source, or a smarthost. */
	readonly site: string;
	/** The entry of the destinations file that holds, `default` where none does. */
	readonly provider: string;
	readonly pace: Pace;
	readonly retry: OwnRetry;
	readonly terms: Terms;
	/**
	 * A new source sends a number of mails a day to a group of sites. The excess takes another route, or waits (null).
	 */
	readonly warmUp: {
		readonly source: string;
		readonly group: string;
		readonly perDay: number;
		readonly overflow: Omit<Route, 'warmUp'> | null;
	} | null;
};

/**
 * Of a mail at its site: `isHigh`: it goes before what waits there. `leaves`: connections that it leaves to such mail.
 */
export type Precedence = {readonly isHigh: boolean; readonly leaves: 0 | 1};

/** What a claim is made for: one workspace's mail of one priority (normal if left out) for one destination. */
export type QueueKey = {readonly destination: string; readonly workspaceId: string; readonly priority?: Priority};

/** New mail of a destination queue. `dueAt`: it is scheduled, milliseconds; absent: it is due. */
export type Arrival = QueueKey & {readonly dueAt?: number};

/** A destination queue's key as one text, for maps: no part can contain a space. */
export function queueKeyText(key: QueueKey): string {
	const {priority = 'normal'} = key;
	return priority === 'normal' ? laneText(key) : `${laneText(key)} ${priority}`;
}

/** The same for all priorities. */
export function laneText({destination, workspaceId}: QueueKey): string {
	return `${destination} ${workspaceId}`;
}
