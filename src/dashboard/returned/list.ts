import {letterOf, reviewOf, whyOf} from '../../admin/kept-mail.ts';
import {type Html, html, plainName} from '../../hosted/html.ts';
import type {Kept} from '../../mail/report.ts';
import {findKept, type KeptMail, listKept, readRaw} from '../../store/inbound-mails.ts';
import {pager} from '../lists.ts';
import {live} from '../live.ts';
import {badge, name, type Tone, table, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, missing, type Route, type Visit} from '../route.ts';
import {keptMail} from './one.ts';

const path = '/returned';
const perPage = 50;

/**
 * Mails that came back and proved to be about no mail of ours. They belong to no workspace, so users of one see only how a mail
 * is read.
 */
export function returnedPages({reader}: DashboardParts): readonly Route[] {
	async function find(id = ''): Promise<KeptMail | undefined> {
		const [mail] = /^[0-9a-f]{64}$/.test(id) ? await findKept(reader, id) : [];
		return mail;
	}

	async function list({query, signedIn, now}: Visit): Promise<Answer> {
		if (signedIn.user.workspaceId !== null) {
			return go(`${path}/explain`);
		}
		const after = query.get('after');
		const last = after === null ? undefined : await find(after);
		const found = await listKept(reader, perPage + 1, last);
		const rows = found.slice(0, perPage);
		const next = found.length > perPage ? rows.at(-1) : undefined;
		const shown = html`${keptTable(rows, now)}${pager(path, query, next?.id ?? null)}`;
		return {
			kind: 'page',
			place: 'returned',
			title: 'Returned mail',
			actions: html`<a class="button" href="${path}/explain">Explain a mail or a reply</a>`,
			content: html`<p class="soft">Reports that match no message, mail that could not be read whole, and mail to postmaster@ and abuse@. Reports that match a message are on its page.</p>${live('kept', after === null ? path : null, shown)}`,
		};
	}

	async function show({params: {id}, now}: Visit): Promise<Answer> {
		const mail = await find(id);
		if (mail === undefined) {
			return missing('There is no such mail. The oldest are removed when many are kept.');
		}
		return {
			kind: 'page',
			place: 'returned',
			title: plainName(titleOf(mail)),
			actions: html`<a class="button" href="${path}/${mail.id}/raw">Save as .eml</a>`,
			content: keptMail(mail, await readRaw(reader, mail.id), now),
		};
	}

	async function save({params: {id = ''}}: Visit): Promise<Answer> {
		const raw = (await find(id)) && (await readRaw(reader, id));
		return raw === undefined
			? missing('There is no such mail.')
			: {kind: 'content', type: 'message/rfc822', body: raw, saveAs: `${id.slice(0, 12)}.eml`};
	}

	return [
		{method: 'GET', path, role: 'viewer', withoutWorkspace: true, answer: list},
		{method: 'GET', path: `${path}/:id`, role: 'viewer', everywhere: true, answer: show},
		{method: 'GET', path: `${path}/:id/raw`, role: 'viewer', everywhere: true, answer: save},
	];
}

function keptTable(rows: readonly KeptMail[], now: number): Html {
	return table<KeptMail>({
		label: 'Returned mail',
		link: ({id}) => `${path}/${id}`,
		columns: [
			// Whom a report names; who wrote to the operator, and about what.
			{title: 'About', cell: mail => name(recipientOf(mail) ?? senderOf(mail)), cut: true},
			{title: 'Kept', cell: ({kept}) => keptBadge(kept), wide: true},
			{title: 'Why', cell: mail => name(letterOf(mail)?.subject ?? whyOf(mail)), cut: true},
			{title: 'Kind', cell: mail => reviewOf(mail).kind.replace('_', ' '), wide: true},
			{title: 'From', cell: mail => name(senderOf(mail)), cut: true, wide: true},
			{title: 'Source', cell: ({source}) => source, wide: true},
			{title: 'Received', cell: ({receivedAt}) => time(receivedAt, now), right: true},
		],
		rows,
		empty: html`<p>Nothing is kept: every report found its message.</p><p>Reports come in over MAILCTL_INBOUND_LISTEN or MAILCTL_BOUNCE_MAILBOX, or by <code>mailctl bounce ingest</code>.</p>`,
	});
}

const tones: Readonly<Record<Kept, Tone>> = {unmatched: 'idle', unread: 'warn', operator: 'busy'};
const labels: Readonly<Record<Kept, string>> = {unmatched: 'unmatched', unread: 'unread', operator: 'for you'};

const keptBadge = (kept: Kept): Html => badge(labels[kept], tones[kept]);

const titleOf = (mail: KeptMail): string =>
	recipientOf(mail) ? `About ${recipientOf(mail)}` : `From ${senderOf(mail)}`;

const recipientOf = (mail: KeptMail): string | null => reviewOf(mail).reports[0]?.recipient ?? null;

function senderOf(mail: KeptMail): string {
	return letterOf(mail)?.from ?? (mail.mailFrom || (mail.mailFrom === '' ? 'the null sender' : 'an unknown sender'));
}
