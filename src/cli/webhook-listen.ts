import {setTimeout as sleep} from 'node:timers/promises';
import type {Command} from 'commander';
import {addEndpoint, removeEndpoint} from '../admin/webhooks.ts';
import {type WebhookEventType, webhookEventTypes} from '../mail/event.ts';
import {listenerUrl, mostEndpoints} from '../mail/webhook.ts';
import {deleteDeliveries, findEndpoint, findWaiting, type StoredDelivery} from '../store/webhooks.ts';
import {faultOf} from '../webhook/fault.ts';
import {postHeaders} from '../webhook/sign.ts';
import {CliError} from './fault.ts';
import {readDaemons} from './open-store.ts';
import {verb, version} from './program.ts';
import {action, type Session} from './session.ts';
import {shortTime} from './text.ts';
import {webhookEvents} from './webhook-deliveries.ts';

type Options = {forwardTo: string; event?: WebhookEventType[]};

const pollMs = 250;
const longestType = Math.max(...webhookEventTypes.map(type => type.length));

export function listenVerb(webhook: Command): void {
	verb(
		webhook,
		'listen',
		'Forward events to a program of yours as they happen, until Ctrl-C',
		'mailctl webhook listen --forward-to http://localhost:3000/hooks/mail',
	)
		.requiredOption('--forward-to <url>', 'http or https, on any host and port', forwardUrl)
		.option('--event <event>', `${webhookEventTypes.join(', ')}; several, or with commas; default all`, webhookEvents)
		.action(action<Options, []>(listen));
}

function forwardUrl(text: string): string {
	const url = URL.canParse(text) ? new URL(text) : null;
	// What fetch would refuse: it takes no password in a URL.
	if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
		throw new CliError(
			'usage',
			`--forward-to "${text}" is not allowed`,
			'use a URL such as http://localhost:3000/hooks',
		);
	}
	return url.href;
}

/**
 * Takes events from a temporary endpoint: they are added to it in their own transactions, and the daemon leaves them
 * alone. So none is missed, in every delivery mode. Each is forwarded once, in order.
 */
async function listen(session: Session, {forwardTo, event}: Options): Promise<void> {
	const stop = stopSignal();
	const {id: workspaceId} = await session.workspace();
	const vault = await session.vault();
	const events = [...new Set(event ?? webhookEventTypes)];
	const input = {workspaceId, mode: 'live' as const, url: listenerUrl(forwardTo), events};
	const added = await session.write(trx => addEndpoint(trx, session.tools, vault, input));
	if (!added) {
		throw new CliError('data', `the workspace has ${mostEndpoints} endpoints`, 'remove one first');
	}
	const {id} = added;
	const secret = vault.open(id, added.secret);
	try {
		if (!(await readDaemons(session)).running) {
			session.terminal.warn('mailctl: no daemon runs, nothing arrives until you start it with mailctl serve');
		}
		session.show({id, forward_to: forwardTo, events, signing_secret: secret}, () => [
			`forwarding to ${forwardTo} until Ctrl-C: ${events.join(', ')}`,
			`signing secret ${secret}`,
			'',
		]);
		while (!stop.aborted) {
			const delivery = await findWaiting(await session.reader(), id);
			if (delivery) {
				await forward(session, delivery, {forwardTo, secret, stop});
				await session.write(trx => deleteDeliveries(trx, [delivery.id]));
			} else if (await findEndpoint(await session.reader(), workspaceId, id)) {
				await sleep(pollMs, undefined, {signal: stop}).catch(() => undefined);
			} else {
				throw new CliError('unavailable', `somebody removed the endpoint ${id}`, 'run mailctl webhook listen again');
			}
		}
	} finally {
		await session.write(trx => removeEndpoint(trx, session.tools, workspaceId, id));
	}
}

type Target = {readonly forwardTo: string; readonly secret: string; readonly stop: AbortSignal};

/** Posts a delivery once and shows the answer. */
async function forward(session: Session, delivery: StoredDelivery, {forwardTo, secret, stop}: Target): Promise<void> {
	const {id, eventType, messageId, body, createdAt} = delivery;
	const signing = {secret, next: null};
	const timeout = AbortSignal.timeout(session.settings().webhookTimeout);
	const posted = await fetch(forwardTo, {
		method: 'POST',
		headers: postHeaders({id, signing, body}, `mailctl/${version()}`, session.tools.clock.now()),
		body,
		redirect: 'manual',
		signal: AbortSignal.any([stop, timeout]),
	}).then(
		async response => {
			await response.body?.cancel();
			return {status: response.status, error: response.ok ? null : `it answered ${response.status}`};
		},
		(fault: Error) => ({
			status: null,
			error: timeout.aborted ? 'no answer in time' : faultOf(fault.cause ?? fault).error,
		}),
	);
	if (stop.aborted && posted.status === null) {
		return;
	}
	const {recipient} = JSON.parse(Buffer.from(body).toString()) as {recipient: string};
	session.show({id, type: eventType, message_id: messageId, recipient, ...posted}, () => [
		// What may be long comes last: the columns before it stay where they are.
		`${shortTime(createdAt).slice(11)}  ${eventType.padEnd(longestType)}  ${posted.status ?? '–  '}  ${messageId}  ${recipient}`,
		...(posted.status === null ? [`          ${posted.error}`] : []),
	]);
}

/** Ctrl-C, or what ends a process otherwise, for the first time: then the endpoint is still removed. */
function stopSignal(): AbortSignal {
	const controller = new AbortController();
	for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
		process.once(signal, () => controller.abort());
	}
	return controller.signal;
}
