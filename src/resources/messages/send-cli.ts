import {basename, extname} from 'node:path';
import {setTimeout as wait} from 'node:timers/promises';
import {Option} from 'commander';
import {CliError, type ExitKind} from '../../cli/fault.ts';
import {addFieldOptions, readFieldOptions} from '../../cli/field-options.ts';
import {readInput, readVariables} from '../../cli/files.ts';
import {collect, metadata, mode} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {writeExact} from '../../kit/exact-json.ts';
import {storeTime} from '../../kit/time.ts';
import type {Mode, RecipientState} from '../../mail/message.ts';
import {type SendBody, sendBody} from '../../send/schema.ts';
import {bumpGeneration} from '../../store/changes.ts';
import {liveDaemon} from '../../store/data-folder/daemon-file.ts';
import {findMessageStatus} from '../../store/messages.ts';
import {readStatus} from '../../store/recipients.ts';
import {listFields, valueAt} from '../fields.ts';
import {issueKey} from '../keys/rules.ts';
import {deleteApiKey} from '../keys/store.ts';
import {notFound} from '../operation.ts';
import {chosenTemplate} from '../templates/cli.ts';

type Options = {
	readonly template: string;
	readonly idempotencyKey?: string;
	readonly mode: Mode;
	readonly wait?: boolean;
};

const pollInterval = 100;

/** An option, and the function that converts all its values to the field. It may throw `CliError`. */
type OwnOption = readonly [option: Option, read: (texts: readonly string[]) => unknown];

/** Options for fields that are written differently than in the API: as files, or as repeated values and pairs. */
const ownOptions: Readonly<Partial<Record<keyof SendBody, OwnOption>>> = {
	data: [
		new Option('--data <file>', 'JSON file of variables; - is standard input'),
		files => readVariables(files.at(-1) ?? '-'),
	],
	cc: [new Option('--cc <address>', 'a Cc recipient; repeatable'), addresses => addresses],
	headers: [
		new Option('--header <name: value>', 'a header field, such as "X-Campaign: spring"; repeatable'),
		pairs => Object.fromEntries(pairs.map(headerPair)),
	],
	attachments: [
		new Option('--attach <file>', 'an attachment, or FILE;cid=ID if the html refers to it as cid:ID; repeatable'),
		files => Promise.all(files.map(attachment)),
	],
	metadata: [new Option('--metadata <key=value>', 'stored with the message; repeatable'), metadata],
};

/** The fields that have no option. */
const withoutOption = ['tags', 'tracking.opens', 'tracking.clicks'];

const fields = listFields(sendBody).filter(
	({name}) => !Object.hasOwn(ownOptions, name) && !withoutOption.includes(name),
);

// The daemon validates addresses and their names, so that the command exits with 65 and not 64 if one is invalid.
const unvalidated = ['from', 'to', 'replyTo', 'toName', 'replyToName'];
const parsers = Object.fromEntries(unvalidated.map(name => [name, (text: string) => text]));

export function sendCommand(command: CliCommand): void {
	command.sample(
		'mailctl send --from no-reply@shop.example --to user@example.com \\\n    --template receipt --data order.json --wait',
	);
	addFieldOptions(command, fields, parsers);
	for (const [option] of Object.values(ownOptions)) {
		command.addOption(option.argParser(collect));
	}
	command
		.option('--idempotency-key <key>', 'a send that repeats an earlier key is not sent again')
		.option('--mode <mode>', 'live, or test, which sends nothing', mode, 'live')
		.option('--wait', 'wait for the final status; exit 0 if delivered or sent, else 69')
		.does<Options>(send);
}

async function send(session: Session, options: Options): Promise<void> {
	const template = await chosenTemplate(session, options.template);
	const body: Partial<SendBody> = {
		...readFieldOptions<Partial<SendBody>>(fields, options),
		...(await readOwnOptions(options)),
		templateId: template.id,
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

async function readOwnOptions(options: object): Promise<Partial<SendBody>> {
	const body: Record<string, unknown> = {};
	for (const [name, [option, read]] of Object.entries(ownOptions)) {
		const texts = valueAt(options, option.attributeName());
		if (texts !== undefined) {
			body[name] = await read(texts as string[]);
		}
	}
	return body;
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
export type SendContext = {readonly workspaceId: string; readonly mode: Mode};

/** How long the temporary key of a send is valid if this process dies before deleting it, in milliseconds. */
const keyLifetime = 60_000;

/** Sends through the API of this data folder's daemon. Throws CliError with the API's error. */
export async function postAs(
	session: Session,
	whose: SendContext,
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
	{workspaceId, mode}: SendContext,
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
	const details = violations.map(violation => `${violation.field}: ${violation.message}`);
	const reason = message === undefined ? '' : `: ${message.replace(/\.$/, '')}`;
	const problem = `the message was refused with ${code}${reason}`;
	throw new CliError(kindOf(response.status), problem, fixes[code] ?? 'fix it and send again', details);
}

const fixes: Readonly<Record<string, string>> = {
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
