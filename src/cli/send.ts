import {basename, extname} from 'node:path';
import {setTimeout as wait} from 'node:timers/promises';
import type {Command} from 'commander';
import type {Mode} from '../mail/message.ts';
import type {RecipientState} from '../mail/recipient-state.ts';
import {readStatus} from '../store/message-copies.ts';
import {CliError} from './fault.ts';
import {readInput, readVariables} from './files.ts';
import {collect, locale, mode, timezone} from './options.ts';
import {postAs} from './post-message.ts';
import {example} from './program.ts';
import {action, type Session} from './session.ts';
import {chosenTemplate} from './template.ts';

type Options = {
	from: string;
	to: string;
	template: string;
	data?: string;
	replyTo?: string;
	cc?: string[];
	attach?: string[];
	topic?: string;
	locale?: string;
	timezone?: string;
	metadata?: string[];
	idempotencyKey?: string;
	mode: Mode;
	wait?: boolean;
};

const pollInterval = 100;

export function sendCommand(command: Command): void {
	example(
		command,
		'mailctl send --from no-reply@shop.example --to user@example.com \\\n    --template receipt --data order.json --wait',
	)
		.requiredOption('--from <address>', 'a verified sender')
		.requiredOption('--to <address>', 'the recipient')
		.requiredOption('--template <id|name>', 'the template')
		.option('--data <file>', 'variables, JSON; -: standard input')
		.option('--cc <address>', 'a copy; several', collect)
		.option('--reply-to <address>', 'where answers go')
		.option('--attach <file>', 'an attachment; several', collect)
		.option('--topic <code>', 'subscription topic')
		.option('--locale <tag>', 'language of the recipient', locale)
		.option('--timezone <zone>', 'zone of the recipient', timezone)
		.option('--metadata <key=value>', 'kept with the message; several', collect)
		.option('--idempotency-key <key>', 'the same key again sends nothing again')
		.option('--mode <mode>', 'live, or test: nothing leaves the machine', mode, 'live')
		.option('--wait', 'until it is final: exit 0 if delivered or sent, else 69')
		.action(action<Options, []>(send));
}

async function send(session: Session, options: Options): Promise<void> {
	const template = await chosenTemplate(session, options.template);
	const body = {
		from: options.from,
		to: options.to,
		templateId: template.id,
		data: options.data === undefined ? undefined : await readVariables(options.data),
		replyTo: options.replyTo,
		cc: options.cc,
		attachments: options.attach && (await Promise.all(options.attach.map(attachment))),
		unsubscribeGroup: options.topic,
		locale: options.locale,
		timezone: options.timezone,
		metadata: options.metadata && metadata(options.metadata),
	};
	const {workspace_id: workspaceId} = template;
	const accepted = await postAs(session, {workspaceId, mode: options.mode}, body, {
		...(options.idempotencyKey !== undefined && {'idempotency-key': options.idempotencyKey}),
	});
	if (!options.wait) {
		session.show(accepted, () => [accepted.id]);
		return;
	}
	const status = await finalStatus(session, accepted.id);
	session.show({...accepted, status}, () => [accepted.id]);
	if (status !== 'delivered' && status !== 'sent') {
		throw new CliError('unavailable', `the message ended ${status}`, `see mailctl message show ${accepted.id}`);
	}
}

async function finalStatus(session: Session, id: string): Promise<RecipientState> {
	const reader = await session.reader();
	for (;;) {
		const status = await readStatus(reader, id);
		if (!status) {
			throw new CliError('other', `the message ${id} is gone`, 'it was removed meanwhile');
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

async function attachment(file: string) {
	return {
		filename: basename(file),
		contentType: mediaTypes[extname(file).toLowerCase()] ?? 'application/octet-stream',
		content: (await readInput(file)).toString('base64'),
	};
}

function metadata(pairs: readonly string[]): Record<string, string> {
	return Object.fromEntries(
		pairs.map(pair => {
			const at = pair.indexOf('=');
			if (at < 1) {
				throw new CliError('usage', `--metadata "${pair}" is not allowed`, 'use KEY=VALUE');
			}
			return [pair.slice(0, at), pair.slice(at + 1)];
		}),
	);
}
