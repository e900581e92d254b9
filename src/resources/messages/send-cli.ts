import {basename, extname} from 'node:path';
import {setTimeout as wait} from 'node:timers/promises';
import {CliError, type ExitKind} from '../../cli/fault.ts';
import {readInput, readVariables} from '../../cli/files.ts';
import {collect, locale, metadata, mode, oneOf, timezone} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {writeExact} from '../../kit/exact-json.ts';
import {storeTime} from '../../kit/time.ts';
import {type Mode, type Priority, priorities, type RecipientState} from '../../mail/message.ts';
import {bumpGeneration} from '../../store/changes.ts';
import {liveDaemon} from '../../store/data-folder/daemon-file.ts';
import {findMessageStatus} from '../../store/messages.ts';
import {readStatus} from '../../store/recipients.ts';
import {issueKey} from '../keys/rules.ts';
import {deleteApiKey} from '../keys/store.ts';
import {notFound} from '../operation.ts';
import {chosenTemplate} from '../templates/cli.ts';

type Options = {
	from: string;
	to: string;
	template: string;
	data?: string;
	replyTo?: string;
	toName?: string;
	replyToName?: string;
	replyTracking?: boolean;
	header?: string[];
	inReplyTo?: string;
	cc?: string[];
	attach?: string[];
	topic?: string;
	locale?: string;
	timezone?: string;
	metadata?: string[];
	idempotencyKey?: string;
	priority?: Priority;
	at?: string;
	expires?: string;
	mode: Mode;
	wait?: boolean;
};

const pollInterval = 100;

export function sendCommand(command: CliCommand): void {
	command
		.sample(
			'mailctl send --from no-reply@shop.example --to user@example.com \\\n    --template receipt --data order.json --wait',
		)
		.requiredOption('--from <address>', 'a verified sender')
		.requiredOption('--to <address>', 'the recipient')
		.requiredOption('--template <id|name>', 'the template')
		.option('--data <file>', 'JSON file of variables; - is standard input')
		.option('--cc <address>', 'a Cc recipient; repeatable', collect)
		.option('--reply-to <address>', 'where replies go')
		.option('--to-name <name>', 'the name of the recipient')
		.option('--reply-to-name <name>', 'the name before --reply-to')
		.option('--header <name: value>', 'a header field, such as "X-Campaign: spring"; repeatable', collect)
		.option('--reply-tracking', 'receive replies here, as received messages that name this message')
		.option('--in-reply-to <id>', 'the message that it replies to')
		.option(
			'--attach <file>',
			'an attachment, or FILE;cid=ID if the html refers to it as cid:ID; repeatable',
			collect,
		)
		.option('--topic <code>', 'subscription topic')
		.option('--locale <tag>', 'language of the recipient', locale)
		.option('--timezone <zone>', 'zone of the recipient', timezone)
		.option('--metadata <key=value>', 'stored with the message; repeatable', collect)
		.option(
			'--priority <priority>',
			'high, normal or low; default: that of its topic or template',
			oneOf('--priority', priorities),
		)
		.option('--at <time>', 'send at this time: 2026-06-09T10:00:00Z, or from now: +90m, +2h, +3d')
		.option('--expires <time>', 'do not send after this time, in the same format; at least a minute after --at')
		.option('--idempotency-key <key>', 'a key that was used before sends nothing again')
		.option('--mode <mode>', 'live, or test, which sends nothing', mode, 'live')
		.option('--wait', 'wait for the final status; exit 0 if delivered or sent, else 69')
		.does<Options>(send);
}

async function send(session: Session, options: Options): Promise<void> {
	const template = await chosenTemplate(session, options.template);
	const body = {
		from: options.from,
		to: options.to,
		templateId: template.id,
		data: options.data === undefined ? undefined : await readVariables(options.data),
		replyTo: options.replyTo,
		toName: options.toName,
		replyToName: options.replyToName,
		replyTracking: options.replyTracking,
		headers: options.header && Object.fromEntries(options.header.map(headerPair)),
		inReplyTo: options.inReplyTo,
		cc: options.cc,
		attachments: options.attach && (await Promise.all(options.attach.map(attachment))),
		unsubscribeGroup: options.topic,
		locale: options.locale,
		timezone: options.timezone,
		priority: options.priority,
		sendAt: options.at,
		expiresAt: options.expires,
		metadata: options.metadata && metadata(options.metadata),
	};
	const {workspace_id: workspaceId} = template;
	const accepted = await postAs(session, {workspaceId, mode: options.mode}, '/v1/messages', body, {
		...(options.idempotencyKey !== undefined && {'idempotency-key': options.idempotencyKey}),
	});
	if (!options.wait) {
		session.show(accepted, () => [accepted.id]);
		return;
	}
	const status = await finalStatus(session, accepted.id);
	session.show({...accepted, status}, () => [accepted.id]);
	if (status !== 'delivered' && status !== 'sent') {
		throw new CliError('unavailable', `the message is ${status}`, `see mailctl message show ${accepted.id}`);
	}
}

function headerPair(text: string): [name: string, value: string] {
	const [, name, value] = /^([^:\s]+):\s*(.+)$/s.exec(text) ?? [];
	if (name === undefined || value === undefined) {
		throw new CliError('usage', `--header "${text}" is not allowed`, 'use NAME: VALUE');
	}
	return [name, value];
}

async function finalStatus(session: Session, id: string): Promise<RecipientState> {
	const reader = await session.reader();
	for (;;) {
		const status = await readStatus(reader, id);
		if (!status) {
			throw new CliError('other', `the message ${id} no longer exists`, 'it was removed in the meantime');
		}
		if (!status.waiting) {
			return status.state;
		}
		await wait(pollInterval);
	}
}

const mediaTypes: Readonly<Record<string, string>> = {
	'.csv': 'text/csv',
	'.gif': 'image/gif',
	'.html': 'text/html',
	'.ics': 'text/calendar',
	'.jpeg': 'image/jpeg',
	'.jpg': 'image/jpeg',
	'.json': 'application/json',
	'.pdf': 'application/pdf',
	'.png': 'image/png',
	'.txt': 'text/plain',
	'.xml': 'application/xml',
	'.zip': 'application/zip',
};

async function attachment(text: string) {
	const [, file = text, contentId] = /^(.+);cid=([^;]*)$/s.exec(text) ?? [];
	return {
		filename: basename(file),
		contentType: mediaTypes[extname(file).toLowerCase()] ?? 'application/octet-stream',
		content: (await readInput(file)).toString('base64'),
		contentId,
	};
}

export type Accepted = {readonly id: string; readonly status: string};

type Envelope = {
	readonly error?: {
		readonly code?: string;
		readonly message?: string;
		readonly violations?: ReadonlyArray<{readonly field: string; readonly message: string}>;
	};
};

/** The workspace of a send, and whether anything may leave the machine. */
export type Whose = {readonly workspaceId: string; readonly mode: Mode};

/** How long the temporary key of a send is valid if this process dies before deleting it, in milliseconds. */
const keyLifetime = 60_000;

/** Sends through the API of this data folder's daemon. Throws CliError with the API's error. */
export async function postAs(
	session: Session,
	whose: Whose,
	path: string,
	body: object,
	headers: Readonly<Record<string, string>> = {},
): Promise<Accepted> {
	const url = liveDaemon(session.settings().dataDir)?.http;
	if (!url) {
		throw new CliError('unavailable', 'no daemon is running on this data folder', 'start it with mailctl serve');
	}
	return await withKey(session, whose, key => postMessage(url + path, key, body, headers));
}

/**
 * Runs `work` with a temporary key. Whoever may write the store may create keys, so the user needs none. The key may
 * only send, is deleted after the response, and expires by itself if this process dies before.
 */
async function withKey<Result>(
	session: Session,
	{workspaceId, mode}: Whose,
	work: (key: string) => Promise<Result>,
): Promise<Result> {
	const expires_at = storeTime(session.tools.clock.now() + keyLifetime);
	const input = {name: 'mailctl send', mode, scopes: ['messages:send'], rate_limit: '0', expires_at};
	const {row, key} = await session.write(async trx => {
		await bumpGeneration(trx);
		return await issueKey(trx, session.tools, workspaceId, input);
	});
	try {
		return await work(key);
	} finally {
		await session.write(trx => deleteApiKey(trx, workspaceId, row.id));
	}
}

async function postMessage(
	url: string,
	key: string,
	body: object,
	headers: Readonly<Record<string, string>>,
): Promise<Accepted> {
	let response: Response;
	try {
		response = await fetch(url, {
			method: 'POST',
			headers: {...headers, authorization: `Bearer ${key}`, 'content-type': 'application/json'},
			body: writeExact(body),
		});
	} catch (error) {
		const cause = (error as Error).cause ?? error;
		throw new CliError(
			'unavailable',
			`the daemon does not respond at ${new URL(url).origin} (${cause instanceof Error ? cause.message : cause})`,
			'start it with mailctl serve',
		);
	}
	const result = (await response.json().catch(() => ({}))) as Accepted & Envelope;
	if (response.ok) {
		return {id: result.id, status: result.status};
	}
	const {code = String(response.status), message, violations = []} = result.error ?? {};
	const details = violations.map(({field, message: problem}) => `${field}: ${problem}`);
	const reason = message === undefined ? '' : `: ${message.replace(/\.$/, '')}`;
	const wrong = `the message was refused with ${code}${reason}`;
	throw new CliError(kindOf(response.status), wrong, mends[code] ?? 'fix it and send again', details);
}

const mends: Readonly<Record<string, string>> = {
	sender_not_available: 'see mailctl sender list',
	template_has_no_version: 'save one with mailctl template push',
	idempotency_key_reused: 'use another --idempotency-key or repeat the first send as it was',
	sending_paused: 'see mailctl workspace show',
	unavailable: 'try again',
	rate_limited: 'try again later',
	quota_exceeded: 'wait for the next month or raise it with mailctl workspace update',
};

function kindOf(status: number): ExitKind {
	if (status === 429 || status >= 500) {
		return 'temporary';
	}
	return status === 401 || status === 403 ? 'unavailable' : 'data';
}

/** Sends a message again as a new one, with every check and the newest version of the template. */
export async function resend(session: Session, _options: object, text: string): Promise<void> {
	const id = (await session.idOf('msg', text)) ?? notFound('message', text);
	const {id: workspaceId} = await session.workspace();
	const message = (await findMessageStatus(await session.reader(), workspaceId, id)) ?? notFound('message', text);
	if (message.erasedAt !== null) {
		throw new CliError('data', `the message ${id} was erased`, 'it cannot be sent again');
	}
	const accepted = await postAs(session, {workspaceId, mode: message.mode}, `/v1/messages/${id}/resend`, {});
	session.show({id: accepted.id, resent_from: id}, () => [accepted.id]);
}
