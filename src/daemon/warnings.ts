import type {Logger} from 'pino';
import {isLoopback} from '../config/derive.ts';
import type {Settings} from '../config/settings.ts';

/** Logs at the start what is allowed and yet hardly meant. */
export function warnAtStart({
	settings,
	publicUrl,
	logger,
}: {
	readonly settings: Pick<Settings, 'roles' | 'delivery' | 'webhookAllowCidrs' | 'adminListen' | 'httpListen'>;
	readonly publicUrl: string;
	readonly logger: Logger;
}): void {
	if (settings.roles.includes('deliver') && settings.delivery !== 'capture' && !publicUrl.startsWith('https:')) {
		const text =
			'mail programs offer one-click unsubscribe for https only, set MAILCTL_PUBLIC_URL to the https address';
		logger.warn({event: 'public_url_not_https', public_url: publicUrl}, text);
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
