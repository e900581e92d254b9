import {parseRelayUrl, type Relay, relayScheme} from '../net/relay-url.ts';
import type {Priority} from './message.ts';
import type {OwnRetry} from './retry.ts';

/** Where the messages of a workspace, or for a destination, are sent. */
export type RouteChoice =
	/** To the MX hosts of the recipient's domain. */
	| {readonly kind: 'mx'}
	/** To the relays in MAILCTL_RELAY_URL. */
	| {readonly kind: 'relay'}
	/** To its own relays, in this order. */
	| {readonly kind: 'smarthosts'; readonly relays: readonly Relay[]};

type ParsedRoute =
	| {readonly ok: true; readonly route: RouteChoice}
	/** A clause that follows the name of the parsed value. It never repeats a URL, which may contain a password. */
	| {readonly ok: false; readonly problem: string};

/** Parses `mx`, `relay`, or relay URLs separated by commas. */
export function parseRoute(text: string): ParsedRoute {
	if (text === 'mx' || text === 'relay') {
		return {ok: true, route: {kind: text}};
	}
	if (!relayScheme.test(text)) {
		return {
			ok: false,
			problem:
				'is neither mx nor relay nor the URL of a smarthost (smtp://…, smtps://…, ses://…, mailgun+https://… or postmark+https://…)',
		};
	}
	const relays: Relay[] = [];
	for (const [index, part] of text.split(',').entries()) {
		const parsed = parseRelayUrl(part.trim());
		if (!parsed.ok) {
			return {ok: false, problem: index === 0 ? parsed.problem : `${parsed.problem} (URL ${index + 1})`};
		}
		relays.push(parsed.relay);
	}
	return {ok: true, route: {kind: 'smarthosts', relays}};
}

/** Matches the part of each URL before the password, and the percent-encoded password. `+https` URLs have no user. */
const logins = /(\+https:\/\/|:\/\/[^:@/?#,]*:)([^@/?#,]*)@/gi;

/**
 * Applies `change` to the passwords in a workspace's route, for storing and reading it. Everything else is left alone,
 * so that the stored route can be shown (masked) without a key.
 */
export function withPasswords(route: string, change: (password: string) => string): string {
	return route.replace(
		logins,
		(_, start: string, password: string) => `${start}${encodeURIComponent(change(decodeURIComponent(password)))}@`,
	);
}

/** Whether the route contains a password. */
export function hasPassword(route: string): boolean {
	return route.search(logins) !== -1;
}

/** A local address that connections are made from, and its EHLO name; `null` means MAILCTL_HOSTNAME. */
export type Source = {readonly address: string; readonly hostname: string | null};

/** The requirements of an MTA-STS policy (RFC 8461 §3.2). A policy in mode `none` has none. */
export type MtaSts = {readonly mode: 'enforce' | 'testing'; readonly mx: readonly string[]};

/**
 * How a recipient's message may be sent. The main thread decides it, passes it along with the message, and the SMTP
 * worker obeys it.
 */
export type Terms = {
	/** To the MX hosts of the recipient's domain, or to the first of these relays that accepts it. */
	readonly nextHop:
		| {readonly kind: 'mx'}
		| {readonly kind: 'relay'; readonly relays: readonly Relay[]; readonly acceptMeans: 'sent' | 'delivered'};
	/** The operator's TLS requirement for MX hosts. A relay's URL contains its own. */
	readonly tls: 'opportunistic' | 'unverified' | 'required';
	readonly mtaSts: MtaSts | null;
	/** The addresses to connect from, at most one per family. If empty, the system chooses. */
	readonly sources: readonly Source[];
	/** The maximum number of messages per connection. */
	readonly mailsPerSession: number;
};

/** A temporary measure after a reply that matches a rule of the destination. */
export type PaceReaction =
	/** Nothing is sent to the provider. `advice` says what an operator can do about it, as a clause. */
	| {readonly kind: 'suspend'; readonly forMs: number; readonly advice?: string}
	/** Limits the messages per minute, and the connections. */
	| {readonly kind: 'slow'; readonly perMinute: number; readonly connections: number; readonly forMs: number}
	/** Limits the messages per connection from now on. */
	| {readonly kind: 'mails_per_session'; readonly mails: number};

/** The limits for one provider (`config/destinations.json`; docs/reference/pacing.md). */
export type Pace = {
	/** The maximum number of simultaneous connections. */
	readonly connections: number;
	/** The initial number of connections. */
	readonly startConnections: number;
	readonly mailsPerSession: number;
	/** The maximum number of messages per minute, or `null` for no limit. */
	readonly perMinute: number | null;
	/** The number of consecutive attempts without any reply after which sending backs off. */
	readonly failures: number;
	/** Patterns for a reply (its code first) and the reaction. The first match applies. */
	readonly reactions: ReadonlyArray<{readonly text: RegExp; readonly reaction: PaceReaction}>;
};

/** Where a workspace's messages for one destination go, with which others they share limits, and how fast. */
export type Route = {
	/** The key of the shared limits: the sorted MX hosts (R8.1) and the source, or a relay. */
	readonly site: string;
	/** The entry of the destinations file that applies, or `default`. */
	readonly provider: string;
	readonly pace: Pace;
	readonly retry: OwnRetry;
	readonly terms: Terms;
	/**
	 * A new source sends a limited number of messages per day to a group of providers. The excess takes the other
	 * route, or waits if that is `null`.
	 */
	readonly warmUp: {
		readonly source: string;
		readonly group: string;
		readonly perDay: number;
		readonly overflow: Omit<Route, 'warmUp'> | null;
	} | null;
};

/**
 * `isHigh`: the message goes ahead of others waiting at its provider. `leaves`: connections it leaves free for such
 * messages.
 */
export type Precedence = {readonly isHigh: boolean; readonly leaves: 0 | 1};

/** The unit that is claimed: one workspace's messages of one priority (default normal) for one destination. */
export type QueueKey = {readonly destination: string; readonly workspaceId: string; readonly priority?: Priority};

/** New messages in a destination queue. `dueAt` is set for scheduled ones, in milliseconds; without it they are due. */
export type Arrival = QueueKey & {readonly dueAt?: number};

/** Returns a destination queue's key as a text, for maps. No part can contain a space. */
export function queueKeyText(key: QueueKey): string {
	const {priority = 'normal'} = key;
	return priority === 'normal' ? laneText(key) : `${laneText(key)} ${priority}`;
}

/** Returns the same for all priorities together. */
export function laneText({destination, workspaceId}: QueueKey): string {
	return `${destination} ${workspaceId}`;
}
