import type {Knex} from 'knex';
import {readResend} from '../../accept/send.ts';
import {isBuiltIn} from '../../admin/templates.ts';
import {type Html, html, plainName} from '../../hosted/html.ts';
import {type Address, parseAddress} from '../../mail/address.ts';
import {apiErrors} from '../../mail/api-error.ts';
import {erasedAddress} from '../../mail/message.ts';
import {perform} from '../../ops/operation.ts';
import {addSuppression} from '../../ops/suppressions.ts';
import {findSent} from '../../store/messages.ts';
import {findSuppression} from '../../store/suppressions.ts';
import {act, opened as behind, copyButton, join, name, select, time} from '../markup.ts';
import {contextOf} from '../operation-form.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';
import {curlCommand} from './curl.ts';
import {noMessage, type Opened, openMessage, tabPath} from './one.ts';

/** Characters of the longest command that is part of its message's pages. */
const longestCommand = 16 * 1024;

/** What one may do with a message. */
export async function actionsOf({reader, apiUrl}: DashboardParts, visit: Visit, opened: Opened): Promise<Html> {
	const {message, isErased} = opened;
	if (isErased) {
		return join([]);
	}
	const {workspace} = visit;
	const sent = isBuiltIn({id: message.templateId}) ? undefined : await findSent(reader, workspace.id, message.id);
	const parts = [];
	if (sent) {
		const command = curlCommand(apiUrl(), sent);
		const files = message.attachments.length > 0 ? html`<p class="soft">Without its attachments.</p>` : null;
		const content =
			command.length > longestCommand
				? html`<p>Its variables are too long for a page. <code>mailctl message show ${message.id} --json</code> prints them.</p>`
				: html`${files}<pre>${command}</pre><p>${copyButton(command, 'the command')}</p>`;
		parts.push(behind('Copy as curl', content));
	}
	if (!visit.may('operator')) {
		return join(parts);
	}
	parts.push(await suppression(reader, visit, opened));
	parts.push(act({to: `/messages/${message.id}/resend`, label: 'Send again'}));
	return join(parts);
}

/** The form that suppresses one of the recipients, or that the only one is suppressed already. */
async function suppression(
	reader: Knex,
	{workspace, now}: Visit,
	{message, recipients, recipient}: Opened,
): Promise<Html> {
	const [only] = recipients;
	const address = recipients.length === 1 && only ? addressOf(only.address) : null;
	const listed = address && (await findSuppression(reader, workspace.id, {addressKey: address.key}));
	if (listed) {
		const note = html`<p>${name(address.spelling)} is on the suppression list since ${time(listed.created_at, now)}: ${listed.reason}.</p>`;
		return behind('Suppressed', note);
	}
	const choices = recipients
		.filter(({address}) => addressOf(address) !== null)
		.map(({id, address}) => ({value: id, label: plainName(address)}));
	const fields = html`${select({name: 'copy', label: 'Recipient', value: recipient.id}, choices)}<p>They get no mail of this workspace any more, until somebody removes the entry.</p>`;
	return behind(
		'Suppress recipient',
		act({to: `/messages/${message.id}/suppress`, label: 'Suppress', fields, look: 'danger'}),
	);
}

/** `refused`: the message's page with what was wrong. */
export function actRoutes(
	parts: DashboardParts,
	refused: (visit: Visit, problem: string) => Promise<Answer>,
): readonly Route[] {
	const {reader, accept, mayAccept} = parts;

	async function resend(visit: Visit): Promise<Answer> {
		const {workspace, tools} = visit;
		const opened = await openMessage(parts, visit);
		const send = opened && (await readResend(reader, workspace.id, opened.message.id));
		if (!send) {
			return noMessage;
		}
		if (send === 'erased') {
			return await refused(visit, 'The message was erased: nothing is left of it that could be sent again.');
		}
		const result = mayAccept()
			? await accept.single({...send, by: tools.operator}, null)
			: ({ok: false, code: 'unavailable'} as const);
		if (!result.ok) {
			return await refused(visit, `It was not sent again. ${apiErrors[result.code].message}`);
		}
		return go(tabPath(result.id, ''), 'Sent again: this is the new message.');
	}

	async function suppress(visit: Visit): Promise<Answer> {
		const opened = await openMessage(parts, visit);
		if (opened === null) {
			return noMessage;
		}
		const {message, recipient} = opened;
		const address = addressOf(recipient.address);
		if (opened.isErased || address === null) {
			return await refused(visit, 'The address was erased.');
		}
		const context = {...contextOf(parts, visit), mode: message.mode};
		const {isNew} = await perform(addSuppression, context, {recipient: address.spelling});
		return go(
			tabPath(message.id, ''),
			isNew
				? `${recipient.address} is on the suppression list now.`
				: `${recipient.address} was on the suppression list already.`,
		);
	}

	return [
		{method: 'POST', path: '/messages/:id/resend', role: 'operator', answer: resend},
		{method: 'POST', path: '/messages/:id/suppress', role: 'operator', answer: suppress},
	];
}

function addressOf(text: string): Address | null {
	const parsed = text === erasedAddress ? null : parseAddress(text, {utf8Local: true});
	return parsed?.ok ? parsed.address : null;
}
