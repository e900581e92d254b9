import {loadDestinations} from '../config/destinations.ts';
import {createWays, type Ways} from '../daemon/ways.ts';
import {createResolver} from '../dns/resolver.ts';
import type {Session} from './session.ts';

const dnsTimeoutMs = 5000;

/** A resolver as the settings say, for one command. */
export function openResolver(session: Session) {
	const {dnsServers: servers} = session.settings();
	return createResolver({servers, timeoutMs: dnsTimeoutMs, tries: 1, clock: session.tools.clock});
}

/** Where each workspace's mail goes, as a daemon with these settings would find it now. */
export async function openWays(session: Session): Promise<Ways> {
	const settings = session.settings();
	return createWays({
		settings,
		destinations: loadDestinations(settings),
		store: await session.store(),
		vault: await session.vault(),
		resolver: openResolver(session),
		clock: session.tools.clock,
	});
}
