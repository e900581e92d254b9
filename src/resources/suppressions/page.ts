import {pager, searchForm, toPage} from '../../dashboard/lists.ts';
import {live} from '../../dashboard/live.ts';
import {
	act,
	badge,
	chips,
	count,
	facts,
	input,
	name,
	nothing,
	opened,
	select,
	table,
	time,
	toHref,
} from '../../dashboard/markup.ts';
import {operationForms, wrong} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, missing, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {Seats} from '../../kit/turns.ts';
import {isId} from '../../mail/ids.ts';
import {type SuppressionReason, suppressionReasons} from '../../mail/suppression.ts';
import {readAddress} from '../formats.ts';
import {addSuppression, removeSuppression} from './rules.ts';
import {listSuppressions, type Suppression} from './store.ts';
import {exportedFile, insertEntries, type LineProblem, SuppressionImport} from './suppression-file.ts';

const perPage = 50;
const path = '/suppressions';

/** Who gets no mail, why, and how to change it. */
export function suppressionPages(parts: DashboardParts): readonly Route[] {
	const {reader} = parts;

	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {query, workspace, now, form} = visit;
		const asked = query.get('q')?.trim() ?? '';
		const address = asked === '' ? null : readAddress(asked);
		const found =
			asked !== '' && address === null
				? []
				: await listSuppressions(reader, {
						workspaceId: workspace.id,
						addressKey: address?.key,
						reason: reasonOf(query),
						after: query.get('after'),
						limit: perPage + 1,
					});
		const {rows, last} = toPage(found, perPage);
		const isFiltered = asked !== '' || reasonOf(query) !== undefined;
		const content = html`${searchForm({to: path, query, placeholder: 'user@example.com', kept: ['reason']})}${reasonChips(query)}${table(
			{
				...entriesTable(now, visit.may('operator')),
				rows,
				empty: isFiltered
					? html`<p>${asked !== '' && address === null ? 'Type a whole address: user@example.com.' : 'No such address is suppressed.'}</p><p><a href="${path}">Show all</a></p>`
					: html`<p>No address is suppressed.</p><p>Hard bounces, complaints and unsubscribes put addresses here by themselves.</p>`,
			},
		)}${pager(path, query, last?.id ?? null)}`;
		return {
			kind: 'page',
			problem,
			place: 'suppressions',
			title: 'Suppressions',
			actions: visit.may('operator')
				? html`<a class="button" href="${toHref(`${path}/export`, query, {after: null, q: null})}">Export</a>${opened('Import', uploadForm())}${opened('Add', addForm(form.get('address') ?? ''))}`
				: nothing,
			content,
		};
	}

	async function file({query, workspace}: Visit): Promise<Answer> {
		const body = await exportedFile(reader, {workspaceId: workspace.id, mode: 'live', reason: reasonOf(query)});
		return {kind: 'content', type: 'text/csv; charset=utf-8', saveAs: 'suppressions.csv', body};
	}

	const form = operationForms(parts, {path, show: list});

	return [
		page(path, list),
		{method: 'GET', path: `${path}/export`, role: 'operator', answer: file},
		form(
			addSuppression,
			path,
			({isNew}, {form: sent}) =>
				`${sent.get('address')?.trim()} ${isNew ? 'gets no mail from now on' : 'was suppressed already'}.`,
			{read: addressIn},
		),
		form(removeSuppression, `${path}/:id/remove`, ({address}) => `${address} gets mail again.`),
		...importPages(parts),
	];
}

const reasonOf = (query: URLSearchParams): SuppressionReason | undefined =>
	suppressionReasons.find(reason => reason === query.get('reason'));

function addressIn({form}: Visit): {readonly recipient: string} {
	const recipient = form.get('address')?.trim() ?? '';
	return readAddress(recipient) ? {recipient} : wrong(`"${recipient}" is no address. Type one as user@example.com.`);
}

const entriesTable = (now: number, mayRemove: boolean) => ({
	label: 'Suppressed addresses',
	columns: [
		{title: 'Recipient', cell: (row: Suppression) => name(row.address), cut: true as const},
		{
			title: 'Reason',
			cell: (row: Suppression) =>
				html`${badge(reasonWords[row.reason], row.reason === 'complaint' ? 'bad' : 'warn')}${row.mode === 'test' ? html` ${badge('test', 'idle')}` : null}`,
		},
		{title: 'Because of', cell: (row: Suppression) => renderSource(row), wide: true as const},
		{
			title: 'Since',
			cell: (row: Suppression) => time(row.created_at, now),
			right: true as const,
			wide: true as const,
		},
		...(mayRemove
			? [
					{
						title: '',
						cell: (row: Suppression) =>
							act({to: `${path}/${row.id}/remove`, label: 'Remove', look: 'quiet'}),
						right: true as const,
					},
				]
			: []),
	],
});

const reasonWords: Readonly<Record<SuppressionReason, string>> = {
	hard_bounce: 'hard bounce',
	complaint: 'complaint',
	manual: 'by hand',
	unsubscribe: 'unsubscribed',
};

const sourceWords: Readonly<Record<string, string>> = {
	api: 'the API',
	'one-click': 'the unsubscribe page',
	cli: 'the command line',
	dashboard: 'this dashboard',
	import: 'an import',
};

/** What put it there; of a bounce or complaint the message. */
function renderSource({source}: Suppression): Html {
	return isId('msg', source)
		? html`<a href="/messages/${source}">the message</a>`
		: html`${sourceWords[source] ?? source}`;
}

const reasonChips = (query: URLSearchParams): Html =>
	chips(
		'Reason',
		query,
		'reason',
		[{value: '', label: 'All'}, ...suppressionReasons.map(reason => ({value: reason, label: reasonWords[reason]}))],
		path,
	);

const addForm = (value: string): Html =>
	act({
		to: path,
		label: 'Add',
		fields: input({name: 'address', label: 'Address', type: 'email', required: true, value}),
	});

const importPath = '/suppressions/import';
/** Of the process; the oldest one is forgotten then. */
const maxRetained = 20;
/** Of one workspace: each holds its file. */
const maxConcurrent = 2;
/** Bytes that are read before others have their turn. */
const pieceBytes = 64 * 1024;

/** An import that runs or has run in this process. What it wrote stays if it fails. */
type Job = {
	readonly id: string;
	readonly workspaceId: string;
	readonly file: string;
	readonly bytes: number;
	done: number;
	readonly reading: Pick<SuppressionImport, 'counts' | 'bad' | 'problems'>;
	/** Null: it runs. */
	end: 'ended' | {readonly fault: string} | null;
};

/** Takes a CSV file of suppressed addresses. The form answers at once with a page that follows the work. */
function importPages({store: {writer}, tools: {random}}: DashboardParts): readonly Route[] {
	const jobs = new Map<string, Job>();
	const seats = new Seats(maxConcurrent);

	async function run(job: Job, reading: SuppressionImport, content: Buffer) {
		const wrong = await reading.read(streamPieces(content), bytes => {
			job.done = bytes;
		});
		job.end = wrong ? {fault: `The file ${wrong.problem}: ${wrong.fix}.`} : 'ended';
	}

	async function begin(visit: Visit): Promise<Answer> {
		const {file, form, workspace, tools} = visit;
		if (file === null || file.content.length === 0) {
			return go('/suppressions', 'Nothing was imported: choose a CSV file that is not empty.');
		}
		const leave = seats.take(workspace.id);
		if (leave === undefined) {
			return go('/suppressions', 'Two imports are running. Wait until one has ended, then send the file again.');
		}
		const id = random(9).toString('base64url');
		const reading = new SuppressionImport({
			acting: tools,
			workspaceId: workspace.id,
			mode: 'live',
			reason: suppressionReasons.find(one => one === form.get('reason')),
			write: insertEntries(tools, workspace.id, writer.transaction),
		});
		const job: Job = {
			id,
			workspaceId: workspace.id,
			file: file.name,
			bytes: file.content.length,
			done: 0,
			reading,
			end: null,
		};
		jobs.set(id, job);
		for (const old of [...jobs.keys()].slice(0, Math.max(0, jobs.size - maxRetained))) {
			jobs.delete(old);
		}
		run(job, reading, file.content)
			.catch(() => {
				job.end = {
					fault: 'The store could not be written. What was imported so far stays; import the file again.',
				};
			})
			.finally(leave);
		return go(`${importPath}/${id}`);
	}

	async function show({params: {id = ''}, workspace}: Visit): Promise<Answer> {
		const job = jobs.get(id);
		if (job?.workspaceId !== workspace.id) {
			return missing('This import is not known any more. What it wrote is on the list.');
		}
		const content = live('import', job.end === null ? `${importPath}/${id}` : null, progress(job), '1s');
		return {kind: 'page', place: 'suppressions', title: `Import of ${job.file}`, content};
	}

	return [
		{method: 'POST', path: importPath, role: 'operator', file: true, answer: begin},
		{method: 'GET', path: `${importPath}/:id`, role: 'operator', answer: show},
	];
}

/** The file as it would come from a disk: others have their turn in between. */
async function* streamPieces(content: Buffer): AsyncGenerator<Buffer> {
	for (let at = 0; at < content.length; at += pieceBytes) {
		yield content.subarray(at, at + pieceBytes);
		await new Promise(resolve => setImmediate(resolve));
	}
}

/** What stands on the page of suppressions. */
function uploadForm(): Html {
	const hint = 'As other services export it, or one address a line; at most 32 MiB.';
	const reasons = [
		{value: '', label: 'as the file says'},
		...suppressionReasons.map(value => ({value, label: value.replace('_', ' ')})),
	];
	const fields = html`${input({name: 'file', label: 'CSV file', type: 'file', required: true, hint})}${select({name: 'reason', label: 'Reason', value: ''}, reasons)}`;
	return act({to: importPath, label: 'Import', fields, file: true});
}

function progress({end, done, bytes, reading: {counts, bad, problems}}: Job): Html {
	const share = Math.round((100 * done) / bytes);
	const state =
		end === null
			? html`<p><label>Reading the file <progress max="100" value="${share}">${share} %</progress></label></p><p class="soft">You may leave this page. Without scripts, load it again to see how far it is.</p>`
			: end === 'ended'
				? html`<p class="notice good" role="status">The file is read.</p>`
				: html`<p class="notice bad" role="alert">${end.fault}</p>`;
	const figures = facts([
		['Lines read', count(counts.read)],
		['Added', count(counts.added)],
		['Listed already', count(counts.listed)],
		['Not taken', count(bad)],
	]);
	const wrong = table({
		label: 'Lines that were not taken',
		columns: [
			{title: 'Line', cell: (row: LineProblem) => count(row.line), right: true},
			{title: 'What is wrong', cell: (row: LineProblem) => row.fault},
		],
		rows: problems,
		empty: html``,
	});
	return html`${state}<div class="card">${figures}</div>${problems.length > 0 ? html`<section><h2>Lines that were not taken</h2>${wrong}</section>` : null}<p class="more"><a href="/suppressions">To the list</a></p>`;
}
