import {destinationsOf, loadDestinations} from '../config/destinations.ts';
import {createResolver} from '../dns/resolver.ts';
import {createSecureResolver} from '../dns/secure-resolver.ts';
import type {Destinations} from '../pace/destinations.ts';
import {createPolicies} from '../routing/mta-sts.ts';
import {createWays, type Ways} from '../routing/ways.ts';
import {version} from './program.ts';
import type {Session} from './session.ts';

const dnsTimeoutMs = 5000;

/** A resolver as the settings say, for one command. */
export function openResolver(session: Session) {
	return createResolver(resolverOptions(session));
}

/** The same for DANE, where MAILCTL_DANE is on. */
export function openSecureResolver(session: Session) {
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
export async function openWays(session: Session, {policies}: {readonly policies: boolean}): Promise<Ways> {
	const settings = session.settings();
	const {clock} = session.tools;
	const store = await session.store();
	const resolver = openResolver(session);
	const ignore = () => undefined; // A policy that cannot be had, or kept, is the daemon's to tell.
	return createWays({
		settings,
		destinations: destinationsNow(session),
		store,
		vault: await session.vault(),
		resolver,
		policies: policies
			? createPolicies({
					...{settings, store, resolver, clock, version: version()},
					...{onPolicyFailure: ignore, onStoreError: ignore},
				})
			: null,
		clock,
	});
}

/** A file that is broken is the daemon's trouble, which goes on with what it had read; a command goes by the shipped one. */
function destinationsNow(session: Session): Destinations {
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
