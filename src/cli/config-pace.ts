import {loadDestinations} from '../config/destinations.ts';
import {maskPasswords} from '../config/mask.ts';
import {createResolver} from '../dns/resolver.ts';
import {systemClock} from '../mail/clock.ts';
import type {RouteChoice} from '../mail/route-choice.ts';
import type {Pace, PaceReaction} from '../mail/way.ts';
import {type Destinations, effectivePace, type Provider} from '../pace/destinations.ts';
import {mxHosts, smarthostName} from '../pace/site-name.ts';
import {domain as parseDomain} from './options.ts';
import type {Session} from './session.ts';
import {fields, table} from './table.ts';
import {duration} from './text.ts';

type Row = {readonly name: string; readonly pace: Pace; readonly tls: string | null; readonly provider: Provider | null};

/** `config pace`: every entry of the destinations file as it holds, or what holds for a domain. */
export async function showPace(session: Session, text: string | undefined): Promise<void> {
	const settings = session.settings();
	const destinations = loadDestinations(settings);
	if (text === undefined) {
		showAll(session, destinations);
		return;
	}

	const name = parseDomain(text);
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: 5000, tries: 2, clock: systemClock});
	const answer = await resolver.mx(name);
	const hosts = mxHosts(name, answer);
	const provider = effectivePace(destinations, name, hosts);
	const {pace} = provider;
	session.show({domain: name, mx: hosts, ...view(provider.name, pace, provider)}, () =>
		fields([
			['domain', name],
			['mail hosts', answer.kind === 'failed' ? `DNS did not answer (${answer.code})` : hosts.join(' ')],
			['entry', provider.name],
			['connections', `${pace.startConnections} to begin with, ${pace.connections} at most`],
			['mails a session', pace.mailsPerSession],
			['mails a minute', pace.perMinute ?? 'no limit'],
			['suspended after', `${pace.failures} tries that no host answered`],
			['tls', provider.tls],
			['route', provider.route && routeText(provider.route)],
			['source pool', provider.pool],
			...pace.reactions.map(({text, reaction}, index): [string, string] => [
				index === 0 ? 'reactions' : '',
				`${readable(text)}: ${reactionText(reaction)}`,
			]),
		]),
	);
}

function showAll(session: Session, destinations: Destinations): void {
	const {other, smarthost, byDomain, byMx} = destinations;
	const entries = [...new Set([other, ...byDomain.values(), ...byMx.values()])];
	const rows: Row[] = entries.map(provider => ({name: provider.name, pace: provider.pace, tls: provider.tls, provider}));
	rows.splice(1, 0, {name: 'smarthost', pace: smarthost, tls: null, provider: null});
	session.show(
		rows.map(({name, pace, provider}) => ({...view(name, pace, provider), matches: namesOf(destinations, provider)})),
		() =>
			table<Row>(
				[
					{title: 'ENTRY', cell: row => row.name},
					{title: 'CONN', cell: row => row.pace.connections, right: true},
					{title: 'START', cell: row => row.pace.startConnections, right: true},
					{title: 'MAILS', cell: row => row.pace.mailsPerSession, right: true},
					{title: '/MIN', cell: row => row.pace.perMinute ?? '–', right: true},
					{title: 'TLS', cell: row => row.tls ?? '–'},
					{title: 'MATCHES', cell: row => namesOf(destinations, row.provider).join(' ') || '–', cut: true},
				],
				rows,
				session.terminal.width,
			),
	);
}

function namesOf({byDomain, byMx}: Destinations, provider: Provider | null): string[] {
	const names = (map: Destinations['byMx']) => [...map].filter(([, each]) => each === provider).map(([name]) => name);
	return [...names(byDomain), ...names(byMx)];
}

function view(entry: string, pace: Pace, provider: Provider | null) {
	return {
		entry,
		connections: pace.connections,
		start_connections: pace.startConnections,
		mails_per_session: pace.mailsPerSession,
		per_minute: pace.perMinute,
		failures: pace.failures,
		tls: provider?.tls ?? null,
		route: provider?.route ? routeText(provider.route) : null,
		source_pool: provider?.pool ?? null,
		reactions: pace.reactions.map(({text, reaction}) => ({text: readable(text), ...reaction})),
	};
}
