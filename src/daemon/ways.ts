import type {Settings} from '../config/settings.ts';
import type {Terms} from '../mail/way.ts';

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
	return {termsFor: (_destination: string): Terms => terms};
}
