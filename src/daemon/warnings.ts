import type {Logger} from 'pino';
import type {Settings} from '../config/settings.ts';

/** Logs at the start what is allowed and yet hardly meant. */
export function warnAtStart({
	settings,
	publicUrl,
	logger,
}: {
	readonly settings: Pick<Settings, 'roles' | 'delivery' | 'webhookAllowCidrs'>;
	readonly publicUrl: string;
	readonly logger: Logger;
}): void {
	if (settings.roles.includes('deliver') && settings.delivery !== 'capture' && !publicUrl.startsWith('https:')) {
		const text =
			'mail programs offer one-click unsubscribe for https only, set MAILCTL_PUBLIC_URL to the https address';
		logger.warn({event: 'public_url_not_https', public_url: publicUrl}, text);
	}
	if (settings.roles.includes('webhook') && settings.webhookAllowCidrs.length > 0) {
		const text = 'webhooks may reach these ranges that are not public: MAILCTL_WEBHOOK_ALLOW_CIDRS is for a lab';
		logger.warn({event: 'webhook_ranges_allowed', ranges: settings.webhookAllowCidrs}, text);
	}
}
