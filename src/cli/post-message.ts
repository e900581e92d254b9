import {issueKey} from '../admin/keys.ts';
import {liveDaemon} from '../data-folder/daemon-file.ts';
import {erasedAddress, type Mode} from '../mail/message.ts';
import {storeTime} from '../mail/time.ts';
import {deleteApiKey} from '../store/api-keys.ts';
import {listAttachments} from '../store/attachments.ts';
import {findSent, type SentMessage} from '../store/messages.ts';
import {CliError, type ExitKind} from './fault.ts';
import type {Session} from './session.ts';

export type Accepted = {readonly id: string; readonly status: string};

type Envelope = {
	readonly error?: {
		readonly code?: string;
		readonly message?: string;
		readonly violations?: ReadonlyArray<{readonly field: string; readonly message: string}>;
	};
};

/** For which workspace a send is, and whether anything may leave the machine. */
export type Whose = {readonly workspaceId: string; readonly mode: Mode};

/** Milliseconds that the key made for one send lives, should this process not live to delete it. */
const keyLifetime = 60_000;

/** One send by the API of the daemon of this data folder. Throws CliError with what the API says. */
export async function postAs(
	session: Session,
	whose: Whose,
	body: object,
	headers: Readonly<Record<string, string>>,
): Promise<Accepted> {
	const url = liveDaemon(session.settings().dataDir)?.http;
	if (!url) {
		throw new CliError('unavailable', 'no daemon is running on this data folder', 'start it with mailctl serve');
	}
	return await withKey(session, whose, key => postMessage(url, key, body, headers));
}

/**
 * Who may write the store may make keys; so a send needs none of its own. The key made for it may only send, is deleted
 * when the answer is there, and ends by itself where this process dies before.
 */
async function withKey<Result>(
	session: Session,
	{workspaceId, mode}: Whose,
	work: (key: string) => Promise<Result>,
): Promise<Result> {
	const expiresAt = storeTime(session.tools.clock.now() + keyLifetime);
	const input = {workspaceId, name: 'mailctl send', mode, scopes: ['messages:send'], rateLimit: '0', expiresAt};
	const {row, key} = await session.write(trx => issueKey(trx, session.tools, input));
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
		response = await fetch(`${url}/v1/messages`, {
			method: 'POST',
			headers: {...headers, authorization: `Bearer ${key}`, 'content-type': 'application/json'},
			body: JSON.stringify(body),
		});
	} catch (error) {
		const cause = (error as Error).cause ?? error;
		throw new CliError(
			'unavailable',
			`the daemon does not answer at ${url} (${cause instanceof Error ? cause.message : cause})`,
			'start it with mailctl serve',
		);
	}
	const answer = (await response.json().catch(() => ({}))) as Accepted & Envelope;
	if (response.ok) {
		return {id: answer.id, status: answer.status};
	}
	const {code = String(response.status), message, violations = []} = answer.error ?? {};
	const details = violations.map(({field, message: fault}) => `${field}: ${fault}`);
	const reason = message === undefined ? '' : `: ${message.replace(/\.$/, '')}`;
	const wrong = `the message was refused with ${code}${reason}`;
	throw new CliError(kindOf(response.status), wrong, mends[code] ?? 'correct it and send again', details);
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

/** Sends what a message said as a new one, which passes every check and uses the template's newest version. */
export async function resend(session: Session, _options: object, id: string): Promise<void> {
	const {id: workspaceId} = await session.workspace();
	const reader = await session.reader();
	const sent = await findSent(reader, workspaceId, id);
	if (!sent) {
		throw new CliError('data', `there is no message ${id}`, 'see mailctl message list');
	}
	if (sent.erasedAt !== null || sent.to === erasedAddress) {
		throw new CliError('data', `the message ${id} was erased`, 'there is nothing left of it to send again');
	}
	const files = await listAttachments(reader, id);
	const body = {
		...bodyOf(sent),
		attachments: files.map(({filename, contentType, content}) => ({
			filename,
			contentType,
			content: Buffer.from(content).toString('base64'),
		})),
	};
	const accepted = await postAs(session, {workspaceId, mode: sent.mode}, body, {'x-mailctl-resent-from': id});
	session.show({id: accepted.id, resent_from: id}, () => [accepted.id]);
}

function bodyOf(sent: SentMessage): object {
	return {
		from: sent.from,
		to: sent.to,
		templateId: sent.templateId,
		data: sent.data,
		replyTo: sent.replyTo === erasedAddress ? null : sent.replyTo,
		// Whoever was erased gets nothing again.
		cc: sent.cc.filter(address => address !== erasedAddress),
		metadata: sent.metadata,
		tags: sent.tags,
		unsubscribeGroup: sent.topicCode,
		locale: sent.locale,
		timezone: sent.timezone,
		tracking: sent.tracking,
	};
}
