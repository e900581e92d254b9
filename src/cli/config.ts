import {ConfigError} from '../config/config-error.ts';
import {loadDestinations} from '../config/destinations-file.ts';
import {hostnameRemark} from '../config/rules.ts';
import {type ShownSetting, showSettings} from '../config/settings.ts';
import {systemClock} from '../kit/clock.ts';
import {noOwnRetry, type OwnRetry} from '../mail/retry.ts';
import type {Pace, PaceReaction, Route, RouteChoice} from '../mail/route.ts';
import type {DnsAnswer, MxRecord} from '../net/dns.ts';
import {createResolver} from '../net/resolver.ts';
import {
	chooseRoute,
	type Destinations,
	mxHosts,
	type Provider,
	patternText,
	smarthostName,
} from '../queue/pace/choose-route.ts';
import {createNetwork} from '../queue/router.ts';
import {domain as parseDomain} from './options.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import {duration, fields, retryTexts, table, wrapped} from './terminal-text.ts';

export function configCommands(config: CliCommand): void {
	config
		.verb('show', 'Print the effective settings, secrets masked')
		.sample('mailctl config show')
		.does(async session => {
			const loaded = session.loadSettings();
			if (!loaded.ok) {
				throw new ConfigError(loaded.problems);
			}
			const rows = showSettings(loaded);
			session.show(rows, () =>
				table<ShownSetting>(
					[
						{title: 'SETTING', cell: row => row.name},
						{title: 'VALUE', cell: row => row.value, cut: true},
						{title: 'FROM', cell: row => row.source},
					],
					rows,
					session.terminal.width,
				),
			);
		});

	config
		.verb('pace [domain]', 'Print delivery limits: the whole destinations file, or what applies to one domain')
		.sample('mailctl config pace gmail.com')
		.does<object, [string | undefined]>(async (session, _options, domain) => await showPace(session, domain));

	config
		.verb('check', 'Validate the settings; exit 0 if they are valid, else 78')
		.sample('mailctl config check')
		.does(async session => {
			const loaded = session.loadSettings();
			if (!loaded.ok) {
				throw new ConfigError(loaded.problems);
			}
			const remark = hostnameRemark(loaded.settings);
			session.show({ok: true, ...(remark !== null && {warnings: [remark]})}, () => [
				...(remark === null ? [] : wrapped(`Warning: ${remark}.`, session.terminal.width)),
				remark === null ? 'The settings are valid.' : 'The settings are usable.',
			]);
		});
}

type Row = {
	readonly name: string;
	readonly pace: Pace;
	readonly tls: string | null;
	readonly provider: Provider | null;
};

/** Prints every effective entry of the destinations file, or what applies to one domain (`config pace`). */
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
	const network = createNetwork(settings);
	// In capture mode, show what will apply once messages are delivered.
	const delivery = network.delivery === 'capture' ? 'mx' : network.delivery;
	const route = chooseRoute(name, hosts, {pool: null, route: null}, {...network, delivery}, destinations, () => null);
	const {site, provider, pace, retry, terms} = route;
	const details = paceView(provider, pace, retry);
	session.show({domain: name, mx: hosts, site, ...details, tls: terms.tls, sources: addressesOf(route)}, () =>
		fields([
			['domain', name],
			['mail servers', hostsText(hosts, answer)],
			['site', site],
			['entry', provider],
			['connections', `${pace.startConnections} at first, ${pace.connections} at most`],
			['per session', pace.mailsPerSession],
			['per minute', pace.perMinute ?? 'no limit'],
			['suspended after', `${pace.failures} attempts in a row without a response`],
			['retried after', details.retry ?? undefined],
			['given up after', details.lifetime ?? undefined],
			['tls', terms.nextHop.kind === 'mx' ? terms.tls : 'as in the URL of the relay'],
			['sources', addressesOf(route).join(' ') || null],
			...details.reactions.map((reaction, index): [string, string] => [
				index === 0 ? 'replies' : '',
				`${reaction.text}: ${reactionText(reaction)}`,
			]),
		]),
	);
}

function addressesOf({terms}: Route): string[] {
	return terms.sources.map(({address}) => address);
}

function hostsText(hosts: readonly string[], answer: DnsAnswer<MxRecord>): string {
	switch (answer.kind) {
		case 'failed':
			return `unknown, DNS did not respond: ${answer.code}`;
		case 'nxdomain':
			return 'none, the domain does not exist';
		default:
			return hosts.join(' ');
	}
}

function showAll(session: Session, destinations: Destinations): void {
	const {other, smarthost, byDomain, byMx} = destinations;
	const entries = [...new Set([other, ...byDomain.values(), ...byMx.values()])];
	const rows: Row[] = entries.map(provider => ({...provider, provider}));
	rows.splice(1, 0, {name: 'smarthost', pace: smarthost, tls: null, provider: null});
	session.show(
		rows.map(({name, pace, tls, provider}) => ({
			...paceView(name, pace, provider?.retry ?? noOwnRetry),
			tls,
			route: provider?.route ? routeText(provider.route) : null,
			source_pool: provider?.pool ?? null,
			matches: namesOf(destinations, provider),
		})),
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
	const names = (map: Destinations['byMx']) =>
		[...map].filter(([, entry]) => entry === provider).map(([name]) => name);
	return [...names(byDomain), ...names(byMx)];
}

function paceView(entry: string, pace: Pace, retry: OwnRetry) {
	return {
		entry,
		connections: pace.connections,
		start_connections: pace.startConnections,
		mails_per_session: pace.mailsPerSession,
		per_minute: pace.perMinute,
		failures: pace.failures,
		...retryTexts(retry),
		reactions: pace.reactions.map(({text, reaction}) => ({text: patternText(text), ...reaction})),
	};
}

function routeText(route: RouteChoice): string {
	return route.kind === 'smarthosts' ? smarthostName(route.relays) : route.kind;
}

function reactionText(reaction: PaceReaction): string {
	switch (reaction.kind) {
		case 'suspend': {
			const advice = reaction.advice === undefined ? '' : `; ${reaction.advice}`;
			return `suspended for ${duration(reaction.forMs)}${advice}`;
		}
		case 'slow': {
			const connections = reaction.connections > 1 ? ` on ${reaction.connections} connections` : '';
			return `${reaction.perMinute} per minute${connections} for ${duration(reaction.forMs)}`;
		}
		case 'mails_per_session':
			return `${reaction.mails} per session`;
	}
}
