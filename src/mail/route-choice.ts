import {parseRelayUrl, type Relay} from '../net/relay-url.ts';

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

	if (!/^smtps?:/i.test(text)) {
		return {ok: false, fault: 'is neither mx nor relay nor the URL of a smarthost (smtp://… or smtps://…)'};
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

/** The user and the password of each URL of a route, percent-encoded. */
const logins = /(:\/\/[^:@/?#,]*):([^@/?#,]*)@/g;

/**
 * A workspace's route for the store, or back from it: only the passwords in it are put through `change`, so that what is
 * stored can be shown (masked) without a key.
 */
export function withPasswords(route: string, change: (password: string) => string): string {
	return route.replace(
		logins,
		(_, start: string, password: string) => `${start}:${encodeURIComponent(change(decodeURIComponent(password)))}@`,
	);
}

/** Whether the route holds a password. */
export function hasPassword(route: string): boolean {
	return route.search(logins) !== -1;
}
