import {pager, toPage} from '../../dashboard/lists.ts';
import {live} from '../../dashboard/live.ts';
import {lookAt} from '../../dashboard/look.ts';
import {
	act,
	badge,
	code,
	count,
	facts,
	input,
	join,
	name,
	nothing,
	section,
	select,
	type Tone,
	table,
	textarea,
	time,
} from '../../dashboard/markup.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, missing, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html, plainName} from '../../hosted/html.ts';
import {kindOf, replyRows, reportRows, toEvidence} from '../../inbound/reports/explain.ts';
import {inSlice} from '../../kit/turns.ts';
import {createClassify} from '../../mail/classify-reply.ts';
import {type Phase, phases} from '../../mail/outcome.ts';
import {keptLength, type Report, type ReportKind, type RetentionReason} from '../../mail/report.ts';
import {operatorMail, retentionReason, reviewOf, tokenProblems} from './kept-mail.ts';
import {findKept, type KeptMail, listKept, readRaw} from './kept-store.ts';

/** Mail that came back and matches no message, and how such mail is read. */
export const returnedMailPages = (parts: DashboardParts): readonly Route[] => [
	...returnedPages(parts),
	...explainPages(parts),
];

const path = '/returned';
const perPage = 50;

/**
 * Mails that came back and proved to be about no mail of ours. They belong to no workspace, so users of one see only
 * how a mail is read.
 */
function returnedPages({reader}: DashboardParts): readonly Route[] {
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
		const {rows, last: next} = toPage(found, perPage);
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
			{title: 'Why', cell: mail => name(operatorMail(mail)?.subject ?? retentionReason(mail)), cut: true},
			{title: 'Kind', cell: mail => reviewOf(mail).kind.replace('_', ' '), wide: true},
			{title: 'From', cell: mail => name(senderOf(mail)), cut: true, wide: true},
			{title: 'Source', cell: ({source}) => source, wide: true},
			{title: 'Received', cell: ({receivedAt}) => time(receivedAt, now), right: true},
		],
		rows,
		empty: html`<p>Nothing is kept: every report found its message.</p><p>Reports come in over MAILCTL_INBOUND_LISTEN or MAILCTL_BOUNCE_MAILBOX, or by <code>mailctl bounce ingest</code>.</p>`,
	});
}

const tones: Readonly<Record<RetentionReason, Tone>> = {unmatched: 'idle', unread: 'warn', operator: 'busy'};
const labels: Readonly<Record<RetentionReason, string>> = {
	unmatched: 'unmatched',
	unread: 'unread',
	operator: 'for you',
};

const keptBadge = (kept: RetentionReason): Html => badge(labels[kept], tones[kept]);

const titleOf = (mail: KeptMail): string =>
	recipientOf(mail) ? `About ${recipientOf(mail)}` : `From ${senderOf(mail)}`;

const recipientOf = (mail: KeptMail): string | null => reviewOf(mail).reports[0]?.recipient ?? null;

function senderOf(mail: KeptMail): string {
	return (
		operatorMail(mail)?.from ?? (mail.mailFrom || (mail.mailFrom === '' ? 'the null sender' : 'an unknown sender'))
	);
}

/** Octets of a mail that are shown; the rest is in the file that one can save. */
const maxShown = 32 * 1024;

/** A mail that is kept: how it came, why it is kept, how it was read, and what it says. */
function keptMail(mail: KeptMail, raw: Buffer | undefined, now: number): Html {
	const review = reviewOf(mail);
	const letter = operatorMail(mail);
	const came = facts([
		['Received', html`${time(mail.receivedAt, now)} by ${mail.source}`],
		['Envelope from', mail.mailFrom === '' ? 'the null sender' : mail.mailFrom && name(mail.mailFrom)],
		['Envelope to', mail.rcptTo.length === 0 ? null : name(mail.rcptTo.join(', '))],
		['Written by', letter?.from ? name(letter.from) : null],
		['Subject', letter?.subject ? name(letter.subject) : null],
		['Kept as', `${mail.kept}: ${retentionReason(mail)}`],
		['Size', `${count(mail.size)} octets`],
		['Id', code(mail.id.slice(0, 12))],
	]);
	const tried = review.tried.map(
		({via, id, fault}) =>
			html`<li>${code(id)} <span class="soft">by ${via.replaceAll('_', ' ')}:</span> ${tokenProblems[fault]}</li>`,
	);
	const read = html`<p>${kindOf(review)}</p>${reportCards(review.kind, review.reports)}`;
	return join([
		html`<div class="card">${came}</div>`,
		section('How it was read', read),
		tried.length === 0
			? nothing
			: section(
					'Why it matches no message',
					html`<p>It names copies, but no name proves that the mail is about them:</p><ul class="links">${tried}</ul>`,
				),
		raw === undefined ? nothing : section('The mail', source(raw, mail.size)),
	]);
}

/** What a mail says of each recipient. */
function reportCards(kind: ReportKind, reports: readonly Report[]): Html {
	return html`<div class="grid">${reports.map(report => {
		const {recipient, originalRecipient} = report;
		const about = recipient === null ? html`A recipient that is not named` : name(recipient);
		const first =
			originalRecipient === null ? nothing : html` <span class="soft">sent to</span> ${name(originalRecipient)}`;
		return html`<article class="card"><h3>${about}${first}</h3>${explained(reportRows(kind, report))}</article>`;
	})}</div>`;
}

/** Names in sentence case, values as they are. */
function explained(rows: ReturnType<typeof reportRows>): Html {
	return facts(rows.map(([title, value]) => [`${title[0]?.toUpperCase()}${title.slice(1)}`, name(value)]));
}

function source(raw: Buffer, size: number): Html {
	const text = raw.subarray(0, maxShown).toString('utf8');
	const there = Math.min(raw.length, keptLength);
	const rest =
		size > maxShown
			? html`<p class="soft">The first ${count(maxShown)} octets of ${count(size)}; ${count(there)} are kept.</p>`
			: nothing;
	return html`${rest}<pre tabindex="0" role="region" aria-label="The mail">
${text}</pre>`;
}

const explainPath = '/returned/explain';
/** Octets that are read, as many as the listener takes; what a report says is at its beginning. */
const maxRead = 10 * 1024 * 1024;

type Read = {readonly problem?: string; readonly content: Html};

/** Shows how a mail or a host's reply would be read, and why. Nothing is kept and nothing follows. */
function explainPages({bounceRules}: DashboardParts): readonly Route[] {
	function page({form, query}: Visit, {problem, content}: Read): Answer {
		return {
			kind: 'page',
			...(problem !== undefined && {problem}),
			place: 'returned',
			title: 'Explain a mail or a reply',
			actions: html`<a class="button" href="/returned">Returned mail</a>`,
			content: join([
				html`<p class="soft">See how a bounce, a complaint or the refusal of a host is read, and by which rule. Nothing is kept and no recipient changes.</p>`,
				content,
				section('A mail', html`<div class="card stack">${mailForm(form)}</div>`),
				section('A reply', html`<div class="card stack">${replyForm(form, query)}</div>`),
			]),
		};
	}

	async function readMail({form, file, signedIn}: Visit): Promise<Read> {
		const raw = file?.content ?? Buffer.from(form.get('mail')?.trimStart() ?? '');
		if (raw.length === 0) {
			return {
				problem: 'There is no mail: paste its source, headers included, or choose its file.',
				content: nothing,
			};
		}
		const asked = {raw: raw.subarray(0, maxRead), rules: bounceRules()};
		const looked = await lookAt(signedIn.user.id, 'report', asked);
		if (!looked.ok) {
			return {problem: `The mail cannot be explained: ${looked.fault}.`, content: nothing};
		}
		const {seen: reading} = looked;
		const rest =
			raw.length > maxRead
				? html`<p class="notice warn">Only the first ${count(maxRead)} of ${count(raw.length)} octets were read. <code>mailctl bounce explain FILE</code> reads all of it.</p>`
				: null;
		const fault =
			reading.fault === null ? '' : ` Nothing follows from it, for it was not read to its end: ${reading.fault}.`;
		const told = html`${rest}<p>${kindOf(reading)}${fault}</p>${reportCards(reading.kind, reading.reports)}`;
		return {content: section('How it is read', told)};
	}

	function readReply({form}: Visit): Read {
		const phase: Phase = phases.find(one => one === form.get('phase')) ?? 'rcpt';
		const read = toEvidence(form.get('reply')?.trim() ?? '', phase, form.get('mx')?.trim() || null);
		if (!read.ok) {
			const [first = '', ...rest] = read.problem;
			return {problem: `${first.toUpperCase()}${rest.join('')}: ${read.fix}.`, content: nothing};
		}
		const rows = replyRows(createClassify(bounceRules())(read.evidence));
		return {content: section('How it is read', html`<div class="card">${explained(rows)}</div>`)};
	}

	return [
		{
			method: 'GET',
			path: explainPath,
			role: 'viewer',
			withoutWorkspace: true,
			answer: async visit => page(visit, {content: nothing}),
		},
		{
			method: 'POST',
			path: explainPath,
			role: 'viewer',
			withoutWorkspace: true,
			file: true,
			async answer(visit) {
				const read = visit.form.has('reply') ? readReply(visit) : await readMail(visit);
				// What was pasted is shown again: a megabyte of marks to be escaped.
				return await inSlice(() => page(visit, read));
			},
		},
	];
}

function mailForm(form: URLSearchParams): Html {
	const hint = 'As it came, with its headers: “Show original” or “View source” of a mail program.';
	const fields = join([
		textarea({name: 'mail', label: 'Source of the mail', value: form.get('mail') ?? '', hint}, 10),
		input({
			name: 'file',
			label: 'Or its file (.eml)',
			type: 'file',
			hint: `Of a larger one the first ${count(maxRead)} octets are read.`,
		}),
	]);
	return act({to: explainPath, label: 'Explain the mail', fields, file: true});
}

/** A link may bring the reply along: `?reply=550 …`. */
function replyForm(form: URLSearchParams, query: URLSearchParams): Html {
	const given = (key: string) => form.get(key) ?? query.get(key) ?? '';
	const reply = {
		name: 'reply',
		label: 'Reply',
		required: true,
		value: given('reply'),
		placeholder: '550 5.1.1 no such user',
	};
	const choices = phases.map(value => ({value, label: value}));
	const fields = join([
		input(reply),
		select({name: 'phase', label: 'Answer to', value: given('phase') || 'rcpt'}, choices),
		input({name: 'mx', label: 'Host, if known', value: given('mx'), placeholder: 'mx.example.net'}),
	]);
	return act({to: explainPath, label: 'Explain the reply', fields});
}
