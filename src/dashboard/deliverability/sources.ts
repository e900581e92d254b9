import type {Settings} from '../../config/settings.ts';
import {type Html, html} from '../../hosted/html.ts';
import {dailyShare, daysBefore, utcDay} from '../../pace/warm-up.ts';
import type {WarmUpCount} from '../../store/queue/sites.ts';
import type {Workspace} from '../../store/workspaces.ts';
import {badge, code, count, nothing, table} from '../markup.ts';

type SourceSettings = Pick<
	Settings,
	'delivery' | 'relays' | 'sourceAddresses' | 'sourcePools' | 'warmUps' | 'hostname'
>;

/** From where mail goes out, and how far new addresses are. `sent`: what they sent today. */
export function sourcesOf(
	settings: SourceSettings,
	workspace: Workspace,
	{sent, now}: {readonly sent: readonly WarmUpCount[]; readonly now: number},
): Html {
	const {sourceAddresses, sourcePools, hostname} = settings;
	const pool = sourcePools.find(({name}) => name === workspace.source_pool);
	const rows = sourceAddresses.map(({ip, ehlo}) => ({
		...{ip, ehlo: ehlo ?? hostname},
		pools: sourcePools.filter(({addresses}) => addresses.includes(ip)).map(({name}) => name),
		isUsed: pool === undefined || pool.addresses.includes(ip),
	}));
	return html`<p>${wayOut(settings, workspace)}</p>${
		rows.length === 0
			? nothing
			: table({
					label: 'Source addresses',
					rows,
					empty: nothing,
					columns: [
						{title: 'Address', cell: ({ip}) => code(ip)},
						{title: 'EHLO name', cell: ({ehlo}) => ehlo, wide: true},
						{title: 'Pools', cell: ({pools}) => pools.join(', ') || '–', wide: true},
						{
							title: 'This workspace',
							cell: ({isUsed}) => (isUsed ? badge('in use', 'good') : badge('not in use', 'idle')),
						},
						{title: 'Warm-up', cell: ({ip}) => warmUpState(settings, ip, sent, now)},
					],
				})
	}`;
}

function wayOut({delivery, relays, sourceAddresses}: SourceSettings, {route}: Workspace): Html {
	if (route !== null) {
		return html`This workspace has a route of its own.`;
	}
	switch (delivery) {
		case 'capture':
			return html`Mail is captured: it never leaves this machine.`;
		case 'relay':
			return html`Mail leaves by ${relays.map(({host, port}) => `${host}:${port}`).join(', ')}. What that host sends on, and from where, is not seen here.`;
		default:
			return sourceAddresses.length > 0
				? html`Mail goes to the hosts of its recipients, from these addresses.`
				: html`Mail goes to the hosts of its recipients, from whichever address the system chooses. <code>MAILCTL_SOURCE_ADDRESSES</code> names others.`;
	}
}

function warmUpState({warmUps}: SourceSettings, ip: string, sent: readonly WarmUpCount[], now: number): Html {
	const warmUp = warmUps.find(({address}) => address === ip);
	if (warmUp === undefined) {
		return html`–`;
	}
	const today = utcDay(now);
	if (today < warmUp.start) {
		return html`begins ${warmUp.start}`;
	}
	const days = daysBefore(warmUp.start, today).length;
	// Days on which receivers defer too much do not count: what is allowed is at most this.
	const share = dailyShare(days, warmUp.target);
	const ofToday = sent
		.filter(({source}) => source === ip)
		.map(({provider, n}) => `${provider} ${count(n)}`)
		.join(', ');
	return share === null
		? badge('known', 'good')
		: html`${badge(`day ${days + 1}`, 'busy')} at most ${count(share)} to each provider; today ${ofToday || 'none yet'}`;
}
