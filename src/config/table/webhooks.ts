import {cidr} from '../addresses.ts';
import {webhookConcurrency} from '../delivery-values.ts';
import {duration, list, path} from '../parsers.ts';
import {optional, optionalList, setting} from '../setting.ts';

/** How events are posted to endpoints. */
export const webhooks = {
	webhookBackoff: setting(
		'MAILCTL_WEBHOOK_BACKOFF',
		'60s',
		duration(1),
		'Wait after the end of a failed webhook attempt.',
	),
	webhookTimeout: setting(
		'MAILCTL_WEBHOOK_TIMEOUT',
		'15s',
		duration(1),
		'One webhook attempt in all; connecting may take a third of it, at most 5 s.',
	),
	webhookConcurrency: setting(
		'MAILCTL_WEBHOOK_CONCURRENCY',
		'4/256',
		webhookConcurrency,
		'Webhook attempts in flight per endpoint (one after a failure) / in all.',
	),
	webhookAllowCidrs: optionalList(
		'MAILCTL_WEBHOOK_ALLOW_CIDRS',
		'–',
		list(cidr),
		'For a lab: non-public ranges that webhooks may reach.',
	),
	webhookCaFile: optional(
		'MAILCTL_WEBHOOK_CA_FILE',
		'–',
		path,
		'PEM file with an extra CA for webhook endpoints, besides MAILCTL_CA_FILE.',
	),
};
