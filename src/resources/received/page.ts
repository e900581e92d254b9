import {Readable} from 'node:stream';
import {pager, searchForm, sinceOf, timeChips} from '../../dashboard/lists.ts';
import {inspectMail} from '../../dashboard/look.ts';
import {mailFrame} from '../../dashboard/mail-frame.ts';
import {fileList, frameContent, imagesNote} from '../../dashboard/mail-parts.ts';
import {
	act,
	badge,
	code,
	count,
	dangerItem,
	disclosure,
	facts,
	menu,
	name,
	nothing,
	section,
	table,
	time,
} from '../../dashboard/markup.ts';
import {fieldInputs, operationForms} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, missing, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {parseAddress} from '../../mail/address.ts';
import {isId} from '../../mail/ids.ts';
import {type Received, senderOf, type Verdict, wildcardOf} from '../../mail/received.ts';
import {queryTerms} from '../../mail/terms.ts';
import {listFields} from '../fields.ts';
import {lines} from '../messages/mail-page.ts';
import {addInbound, checkNotOurs, removeInbound, removeReceived} from './rules.ts';
import {
	findReceived,
	type InboundAddress,
	listInboundAddresses,
	listReceived,
	openReceivedBytes,
	readReceivedBytes,
} from './store.ts';

const path = '/received';
const inbound = '/inbound';
const perPage = 50;
const notFound = missing('Message not found. Its retention period may be over.');

/** Returns the pages on messages that a workspace received, and on its inbound addresses. */
export function receivedPages(parts: DashboardParts): readonly Route[] {
	const {reader} = parts;

	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {workspace, query, form, now} = visit;
		const mayAct = visit.may('admin');
		const after = query.get('after');
		const addresses = await listInboundAddresses(reader, workspace.id);
		const terms = parseTerms(query.get('q')?.trim() ?? '', addresses);
		const filter = {workspaceId: workspace.id, terms, since: sinceOf(query.get('hours'), now)};
		const part = {after: isId('rcv', after ?? '') ? after : null, limit: perPage};
		const {rows, next} = await listReceived(reader, filter, part);
		const empty = filter.since !== undefined || terms.length > 0 ? noneFound : noneYet;
		const messages = mailTable(rows, now, next === null ? empty : html`<p>No matches so far.</p>`);
		const search = searchForm({to: path, query, placeholder: 'ann@example.com, receipt, msg_…', kept: ['hours']});
		return {
			kind: 'page',
			place: 'received',
			title: 'Received',
			problem,
			actions: mayAct ? disclosure('New address', addForm(form)) : nothing,
			content: html`${search}${timeChips('Received', query, path)}${messages}${pager(path, query, next)}${section('Addresses', addressTable(addresses, mayAct, now))}`,
		};
	}

	async function show({params: {id = ''}, query, workspace, now, may}: Visit): Promise<Answer> {
		const mail = await findReceived(reader, workspace.id, id);
		if (mail === undefined) {
			return notFound;
		}
		const {content, summary, fault} = mail;
		const images = query.get('images') === '1' ? '?images=1' : '';
		const body =
			content.html === null
				? html`<pre>${lines(content.text ?? '')}</pre>`
				: html`${imagesNote(query, `${path}/${id}`)}${mailFrame({path: `${path}/${id}/frame${images}`, title: 'Message'})}`;
		const attached = summary.files.map((file, n) => ({...file, name: file.name ?? `part ${n}`, octets: file.size}));
		const about = 'This cannot be undone.';
		const remove = dangerItem({to: `${path}/${id}/delete`, label: 'Delete message', about});
		return {
			kind: 'page',
			place: 'received',
			title: summary.subject || '(no subject)',
			actions: html`<a class="button" href="${path}/${id}/raw" download>Save as .eml</a>${may('operator') ? menu([remove]) : null}`,
			content: html`<div class="card">${aboutMail(mail, now)}</div>${fault === null ? null : html`<p class="notice warn">The message could not be parsed: ${name(fault)}. The .eml file contains all of it.</p>`}${section('Message', body)}${fileList(attached, n => `${path}/${id}/attachments/${n}`)}`,
		};
	}

	async function frame(visit: Visit): Promise<Answer> {
		const {params, workspace} = visit;
		const {id = ''} = params;
		const raw = await readReceivedBytes(reader, workspace.id, id);
		const result = raw && (await inspectMail(workspace.id, 'mail', {raw}));
		if (!result) {
			return notFound;
		}
		const content = result.ok ? result.seen : {html: null, text: `The message cannot be shown: ${result.fault}.`};
		return frameContent(visit, `${path}/${id}`, content);
	}

	async function save({params: {id = '', n}, workspace}: Visit): Promise<Answer> {
		const mail = await findReceived(reader, workspace.id, id);
		const file = n === undefined ? undefined : mail?.summary.files[Number(n)];
		const target = n === undefined ? mail : file;
		const bytes = target && (await openReceivedBytes(reader, workspace.id, id, n === undefined ? n : Number(n)));
		return bytes === undefined
			? notFound
			: {
					kind: 'content',
					type: 'application/octet-stream',
					body: Readable.from(bytes.pieces, {objectMode: false}),
					saveAs: file ? (file.name ?? `${n}`) : `${id}.eml`,
					headers: {'content-length': String(bytes.size)},
				};
	}

	const form = operationForms(parts, {path, show: list});
	const {host, returnPathDomain} = parts.domains.names;
	const before = async (visit: Visit) => checkNotOurs(visit.form.get('address') ?? '', [host, returnPathDomain]);
	return [
		page(path, list),
		page(`${path}/:id`, show),
		page(`${path}/:id/frame`, frame),
		page(`${path}/:id/raw`, save),
		page(`${path}/:id/attachments/:n`, save),
		form(addInbound, inbound, ({address}) => `Mail to ${address} is received once its MX points here.`, {before}),
		form(removeInbound, `${inbound}/:id/remove`, ({address}) => `Mail to ${address} is now rejected.`),
		form(removeReceived, `${path}/:id/delete`, () => 'Message deleted.'),
	];
}

/** Parses an address of the workspace or of a sender, the id of the message replied to, or words of the subject. */
function parseTerms(text: string, own: readonly InboundAddress[]): readonly string[] {
	const parsed = parseAddress(text, {allowsUtf8Local: true});
	if (parsed.ok) {
		const {key} = parsed.address;
		const isOwn = own.some(({address}) => address === key || address === wildcardOf(key));
		return [`${isOwn ? 'to' : 'from'}:${key}`];
	}
	// No message has the term `re:`, so nothing matches.
	const words = queryTerms(text) ?? ['re:'];
	return isId('msg', text) ? [`re:${text}`] : text === '' ? [] : words;
}

const noneYet = html`<p>No messages yet.</p><p>They arrive at the addresses below, and as replies to messages with <code>replyTracking</code>.</p>`;
const noneFound = html`<p>No messages match.</p><p><a href="${path}">Show all messages</a></p>`;

/** Returns a table of received messages, which other pages show, too. */
export function mailTable(rows: readonly Received[], now: number, empty = noneFound): Html {
	return table<Received>({
		label: 'Received mail',
		link: ({id}) => `${path}/${id}`,
		columns: [
			// On a phone, the subject is below the sender.
			{
				title: 'From',
				cell: mail => html`${name(senderOf(mail))}<small class="narrow">${name(mail.summary.subject)}</small>`,
				cut: true,
			},
			{title: 'Subject', cell: ({summary}) => name(summary.subject), cut: true, wide: true},
			{title: 'To', cell: ({summary}) => name(summary.recipients.join(', ')), cut: true, wide: true},
			{title: 'Reply', cell: ({inReplyTo}) => (inReplyTo ? badge('reply', 'good') : null), wide: true},
			{title: 'DMARC', cell: ({summary}) => resultBadge(summary.dmarc), wide: true},
			{title: 'Received', cell: mail => time(mail.receivedAt, now), right: true},
		],
		rows,
		empty,
	});
}

const resultBadge = ({result}: Verdict): Html =>
	badge(result, result === 'pass' ? 'good' : result === 'fail' ? 'bad' : 'idle');
const verdictCell = (verdict: Verdict): Html =>
	html`${resultBadge(verdict)}${verdict.domain === null ? null : html` ${name(verdict.domain)}`}`;

function aboutMail(mail: Received, now: number): Html {
	const {summary, inReplyTo, receivedAt, size} = mail;
	const {from, recipients, spf, dkim, dmarc, automatic} = summary;
	return facts([
		['From', html`${from?.name ? html`${name(from.name)} ` : null}${code(senderOf(mail))}`],
		['To', code(recipients.join(', '))],
		['In reply to', inReplyTo && html`<a href="/messages/${inReplyTo}">${code(inReplyTo)}</a>`],
		['Received', time(receivedAt, now)],
		['SPF', verdictCell(spf)],
		['DKIM', verdictCell(dkim)],
		['DMARC', verdictCell(dmarc)],
		['Sent by', automatic ? 'a program' : null],
		['Octets', count(size)],
	]);
}

const addForm = (typed: URLSearchParams): Html =>
	act({to: inbound, label: 'Add address', fields: fieldInputs(listFields(addInbound.input), {typed})});

function removeMenu({id}: InboundAddress): Html {
	const about = 'Mail to it is then rejected.';
	return menu([dangerItem({to: `${inbound}/${id}/remove`, label: 'Remove address', about})]);
}

function addressTable(rows: readonly InboundAddress[], mayAct: boolean, now: number): Html {
	return table<InboundAddress>({
		label: 'Addresses',
		columns: [
			{title: 'Address', cell: row => code(row.address)},
			{title: 'Added', cell: row => time(row.created_at, now), right: true},
			...(mayAct ? [{title: '', cell: removeMenu, right: true as const}] : []),
		],
		rows,
		empty: html`<p>No addresses yet.</p><p>Add one at a verified domain, such as support@in.shop.example.</p>`,
	});
}
