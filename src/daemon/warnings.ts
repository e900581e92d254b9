import type {Knex} from 'knex';
import type {Logger} from 'pino';
import {isLoopback, isWildcard} from '../config/derive.ts';
import {hostnameRemark} from '../config/rules.ts';
import type {Settings} from '../config/settings.ts';
import {listWorkspaces} from '../store/workspaces.ts';

/** Logs at the start what is allowed and yet hardly meant. */
export function warnAtStart({
	settings,
	publicUrl,
	inContainer,
	logger,
}: {
	readonly settings: Pick<
		Settings,
		'roles' | 'delivery' | 'webhookAllowCidrs' | 'adminListen' | 'httpListen' | 'publicUrl' | 'hostname'
	>;
	/** The base of links. */
	readonly publicUrl: string;
	/** Then the warning can say where the address is meant. */
	readonly inContainer: boolean;
	readonly logger: Logger;
}): void {
	const delivers = settings.roles.includes('deliver');
	if (delivers && settings.publicUrl === null && isWildcard(settings.httpListen.host)) {
		const place = inContainer ? 'in this container' : 'on all addresses of the machine';
		const text = `links in mail lead to ${publicUrl}, a guess as the server listens ${place}: set MAILCTL_PUBLIC_URL to the https address at which recipients reach it`;
		logger.warn({event: 'public_url_guessed', public_url: publicUrl}, text);
	} else if (delivers && settings.delivery !== 'capture' && !publicUrl.startsWith('https:')) {
		const text =
			'mail programs offer one-click unsubscribe for https only, set MAILCTL_PUBLIC_URL to the https address';
		logger.warn({event: 'public_url_not_https', public_url: publicUrl}, text);
	}
	const remark = hostnameRemark(settings);
	if (delivers && remark !== null) {
		logger.warn({event: 'hostname_not_full', hostname: settings.hostname}, remark);
	}
	const admin = settings.adminListen === 'shared' ? settings.httpListen : settings.adminListen;
	if (settings.roles.includes('api') && admin !== null && !isLoopback(admin.host)) {
		const text = 'other machines may reach /metrics and /docs: protect MAILCTL_ADMIN_LISTEN with a firewall';
		logger.warn({event: 'admin_listener_open', host: admin.host}, text);
	}
	if (settings.roles.includes('webhook') && settings.webhookAllowCidrs.length > 0) {
		const text = 'webhooks may reach these ranges that are not public: MAILCTL_WEBHOOK_ALLOW_CIDRS is for a lab';
		logger.warn({event: 'webhook_ranges_allowed', ranges: settings.webhookAllowCidrs}, text);
	}
}

/** What a workspace asks for and the settings do not have, in words for people; empty: all is there. */
function unmetSettings(
	{source_pool: pool, route}: {readonly source_pool: string | null; readonly route: string | null},
	{sourcePools, relays}: Pick<Settings, 'sourcePools' | 'relays'>,
): string[] {
	const noPool = pool !== null && sourcePools.every(({name}) => name !== pool);
	return [
		...(noPool ? [`its source pool ${pool} is not in MAILCTL_SOURCE_POOLS: it sends from all addresses`] : []),
		...(route === 'relay' && relays.length === 0
			? ['its route is relay and MAILCTL_RELAY_URL is not set: its mail goes to the MX hosts']
			: []),
	];
}

/** Logs what workspaces ask for in vain. */
export async function warnOfWorkspaces({
	settings,
	reader,
	logger,
}: {
	readonly settings: Settings;
	readonly reader: Knex;
	readonly logger: Logger;
}): Promise<void> {
	for (const workspace of await listWorkspaces(reader)) {
		for (const problem of unmetSettings(workspace, settings)) {
			logger.warn({event: 'workspace_setting_unknown', workspace: workspace.id}, `${workspace.name}: ${problem}`);
		}
	}
}
