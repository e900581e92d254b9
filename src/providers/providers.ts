import type {ProviderName} from '../mail/provider.ts';
import {brevo} from './brevo.ts';
import {generic} from './generic.ts';
import {mailgun} from './mailgun.ts';
import {mailjet} from './mailjet.ts';
import {postmark} from './postmark.ts';
import {fieldsOf, type Provider} from './provider.ts';
import {sendgrid} from './sendgrid.ts';
import {ses} from './ses.ts';
import {sparkpost} from './sparkpost.ts';

export const providers: Readonly<Record<ProviderName, Provider>> = {
	...{ses, sendgrid, mailgun, postmark, brevo, mailjet, sparkpost, generic},
};

/** A field that only this provider's events have, or their envelope. */
const marks: ReadonlyArray<readonly [ProviderName, string]> = [
	['ses', 'SigningCertURL'],
	['ses', 'eventType'],
	['ses', 'notificationType'],
	['mailgun', 'event-data'],
	['sendgrid', 'sg_event_id'],
	['sparkpost', 'msys'],
	['postmark', 'RecordType'],
	['brevo', 'message-id'],
	['mailjet', 'MessageID'],
	['generic', 'message_id'],
];

/** Whose post a parsed body is, by its form; null: no provider's. */
export function guessProvider(body: unknown): ProviderName | null {
	const first = fieldsOf(Array.isArray(body) ? body[0] : body);
	return marks.find(([, mark]) => first[mark] !== undefined)?.[0] ?? null;
}

/**
 * The header fields by which the providers of these smarthosts echo our token in the events of a mail, each with its line end; empty
 * for none. They stand before the mail's own fields, and no signature covers them.
 */
export function echoFields(
	smarthosts: ReadonlyArray<{readonly provider: ProviderName; readonly workspace_id: string | null}>,
	workspaceId: string,
	ref: string,
): string {
	const own = smarthosts.filter(one => one.workspace_id === null || one.workspace_id === workspaceId);
	const names = new Set(own.map(({provider}) => provider));
	return [...names]
		.map(name => providers[name].echo?.(ref))
		.map(field => (field ? `${field[0]}: ${field[1]}\r\n` : ''))
		.join('');
}
