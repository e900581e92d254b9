import type {Settings} from '../config/settings.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import type {LaneKey, Pace, Terms, Way} from '../mail/way.ts';

/** How mail travels, as the settings say. */
export function createWays(settings: Settings) {
	const terms: Terms = {
		route:
			settings.delivery === 'relay'
				? {kind: 'relay', relays: settings.relays, acceptMeans: settings.relayAcceptMeans}
				: {kind: 'mx'},
		tls: 'opportunistic',
		mtaSts: null,
		sources: settings.sourceAddresses.map(({ip, ehlo}) => ({address: ip, hostname: ehlo})),
		mailsPerSession: settings.delivery === 'relay' ? 1000 : 50,
	};
	const pace = (connections: number, startConnections: number): Pace => ({
		connections,
		startConnections,
		mailsPerSession: terms.mailsPerSession,
		perMinute: null,
		failures: 5,
		reactions: [],
	});
	const paces = {mx: pace(5, 2), relay: pace(20, 10), capture: pace(64, 64)};

	return {
		async wayOf({destination}: LaneKey): Promise<Way> {
			const isSimulated = destination === simulatorDomain;
			const site = isSimulated || settings.delivery === 'mx' ? destination : settings.delivery;
			const own = isSimulated ? paces.capture : paces[settings.delivery];
			return {site, provider: 'default', pace: own, terms, warmUp: null};
		},
	};
}
