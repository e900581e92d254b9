import {setTimeout as sleep} from 'node:timers/promises';
import {CliError} from '../../cli/fault.ts';
import {addFieldOptions, readFieldOptions} from '../../cli/field-options.ts';
import {type CliCommand, version} from '../../cli/program.ts';
import {readDaemons, type Session} from '../../cli/session.ts';
import {shortTime} from '../../cli/terminal-text.ts';
import {defaultWebhookEvents, type WebhookEventType, webhookEventTypes} from '../../mail/message.ts';
import {listenerUrl} from '../../mail/webhook.ts';
import {listFields} from '../fields.ts';
import {toProblem} from './connections.ts';
import {postHeaders} from './post.ts';
import {addEndpoint, removeEndpoint} from './rules.ts';
import {deleteDeliveries, findEndpoint, findWaiting, type StoredDelivery} from './store.ts';

const eventFields = listFields(addEndpoint.input)
	.filter(({name}) => name === 'events')
	.map(field => ({
		...field,
		description: 'The events to forward.',
		isRequired: false,
		default: 'the first five',
	}));

const pollMs = 250;
const maxType = Math.max(...webhookEventTypes.map(type => type.length));

export function listenVerb(webhook: CliCommand): void {
	const verb = webhook
		.verb('listen', 'Forward events to a local program as they happen, until Ctrl-C')
		.sample('mailctl webhook listen --forward-to http://localhost:3000/hooks/mail')
		.requiredOption('--forward-to <url>', 'an http or https URL, on any host and port', forwardUrl);
	addFieldOptions(verb, eventFields).does<{forwardTo: string}>(async (session, options) => {
		const {events = defaultWebhookEvents} = readFieldOptions<{events?: readonly WebhookEventType[]}>(
			eventFields,
			options,
		);
		await listen(session, options.forwardTo, events);
	});
}

function forwardUrl(text: string): string {
	const url = URL.canParse(text) ? new URL(text) : null;
	// fetch refuses URLs with a password.
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
 * Forwards the events of a temporary endpoint. Events are added to it in their own transactions and the daemon ignores
 * them, so none is missed in any delivery mode. Each event is forwarded once, in order.
 */
async function listen(session: Session, forwardTo: string, events: readonly WebhookEventType[]): Promise<void> {
	const stop = stopSignal();
	const vault = await session.vault();
	const added = await session.perform(addEndpoint, {url: listenerUrl(forwardTo), events});
	const {id, workspaceId} = added;
	const secret = vault.open(id, added.secret);
	try {
		if (!(await readDaemons(session)).isRunning) {
			session.terminal.warn(
				'mailctl: no daemon is running, so nothing arrives until you start it with mailctl serve',
			);
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
				throw new CliError('unavailable', `the endpoint ${id} was removed`, 'run mailctl webhook listen again');
			}
		}
	} finally {
		// Someone else may have removed it already.
		if (await findEndpoint(await session.reader(), workspaceId, id)) {
			await session.perform(removeEndpoint, {id});
		}
	}
}

type Target = {readonly forwardTo: string; readonly secret: string; readonly stop: AbortSignal};

/** Posts a delivery once and shows the response. */
async function forward(session: Session, delivery: StoredDelivery, {forwardTo, secret, stop}: Target): Promise<void> {
	const {id, eventType, messageId, body, createdAt} = delivery;
	const signing = {secret, next: null};
	const timeout = AbortSignal.timeout(session.settings().webhookTimeout);
	const result = await fetch(forwardTo, {
		method: 'POST',
		headers: postHeaders({id, signing, body}, `mailctl/${version()}`, session.tools.clock.now()),
		body,
		redirect: 'manual',
		signal: AbortSignal.any([stop, timeout]),
	}).then(
		async response => {
			await response.body?.cancel();
			const {status, ok} = response;
			return {status, error: ok ? null : `the server responded with ${status}`};
		},
		(error: Error) => ({
			status: null,
			error: timeout.aborted ? 'no response in time' : toProblem(error.cause ?? error).error,
		}),
	);
	if (stop.aborted && result.status === null) {
		return;
	}
	const {recipient} = JSON.parse(Buffer.from(body).toString()) as {recipient: string | null};
	session.show({id, type: eventType, message_id: messageId, recipient, ...result}, () => [
		// Long values come last, so that the columns before them stay aligned.
		`${shortTime(createdAt).slice(11)}  ${eventType.padEnd(maxType)}  ${result.status ?? '–  '}  ${messageId ?? '–'}  ${recipient ?? '–'}`,
		...(result.status === null ? [`          ${result.error}`] : []),
	]);
}

/** Returns a signal that aborts on the first Ctrl-C, SIGTERM or SIGHUP, so that the endpoint is removed. */
function stopSignal(): AbortSignal {
	const controller = new AbortController();
	for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
		process.once(signal, () => controller.abort());
	}
	return controller.signal;
}
