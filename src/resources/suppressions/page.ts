import {pager, searchForm, toPage} from '../../dashboard/lists.ts';
import {live} from '../../dashboard/live.ts';
import {
	act,
	badge,
	chips,
	count,
	dangerItem,
	disclosure,
	facts,
	input,
	menu,
	name,
	nothing,
	select,
	table,
	time,
	toHref,
} from '../../dashboard/markup.ts';
import {operationForms, rejectForm} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, missing, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {ConcurrencyLimit} from '../../kit/turns.ts';
import {isId} from '../../mail/ids.ts';
import {type SuppressionReason, suppressionReasons} from '../../mail/suppression.ts';
import {readAddress} from '../formats.ts';
import {addSuppression, removeSuppression} from './rules.ts';
import {listSuppressions, type Suppression} from './store.ts';
import {exportedFile, insertEntries, type LineProblem, SuppressionImport} from './suppression-file.ts';

const perPage = 50;
const path = '/suppressions';

/** The page of suppressed addresses: who is suppressed and why, with forms that change it. */
export function suppressionPages(parts: DashboardParts): readonly Route[] {
	const {reader} = parts;

	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {query, workspace, now, form} = visit;
		const search = query.get('q')?.trim() ?? '';
		const address = search === '' ? null : readAddress(search);
		const entries =
			search !== '' && address === null
				? []
				: await listSuppressions(reader, {
						workspaceId: workspace.id,
						addressKey: address?.key,
						reason: reasonIn(query),
						after: query.get('after'),
						limit: perPage + 1,
					});
		const {rows, last} = toPage(entries, perPage);
		const isFiltered = search !== '' || reasonIn(query) !== undefined;
		const content = html`${searchForm({to: path, query, placeholder: 'user@example.com', kept: ['reason']})}${reasonChips(query)}${table(
			{
				...entriesTable(now, visit.may('operator')),
				rows,
				empty: isFiltered
					? html`<p>${search !== '' && address === null ? 'Enter a complete address, such as user@example.com.' : 'No matching address is suppressed.'}</p><p><a href="${path}">Show all</a></p>`
					: html`<p>No address is suppressed.</p><p>Hard bounces, complaints and unsubscribes add addresses automatically.</p>`,
			},
		)}${pager(path, query, last?.id ?? null)}`;
		return {
			kind: 'page',
			problem,
			place: 'suppressions',
			title: 'Suppressions',
			actions: visit.may('operator')
				? html`<a class="button" href="${toHref(`${path}/export`, query, {after: null, q: null})}">Export</a>${disclosure('Import', uploadForm())}${disclosure('Add', addForm(form.get('address') ?? ''))}`
				: nothing,
			content,
		};
	}

	async function file({query, workspace}: Visit): Promise<Answer> {
		const body = await exportedFile(reader, {workspaceId: workspace.id, mode: 'live', reason: reasonIn(query)});
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
				`${sent.get('address')?.trim()} ${isNew ? 'is now suppressed' : 'was already suppressed'}.`,
			{read: addressIn},
		),
		form(removeSuppression, `${path}/:id/remove`, ({address}) => `${address} can receive messages again.`),
		...importPages(parts),
	];
}

const reasonIn = (query: URLSearchParams): SuppressionReason | undefined =>
	suppressionReasons.find(reason => reason === query.get('reason'));

function addressIn({form}: Visit): {readonly recipient: string} {
	const recipient = form.get('address')?.trim() ?? '';
	return readAddress(recipient)
		? {recipient}
		: rejectForm(`"${recipient}" is not an address such as user@example.com.`);
}

function removeMenu({id}: Suppression): Html {
	const about = 'The address can then receive messages again.';
	return menu([dangerItem({to: `${path}/${id}/remove`, label: 'Remove from list', about})]);
}

const entriesTable = (now: number, mayRemove: boolean) => ({
	label: 'Suppressed addresses',
	columns: [
		{title: 'Recipient', cell: (row: Suppression) => name(row.address), cut: true as const},
		{
			title: 'Reason',
			cell: (row: Suppression) =>
				html`${badge(reasonNames[row.reason], row.reason === 'complaint' ? 'bad' : 'warn')}${row.mode === 'test' ? html` ${badge('test', 'idle')}` : null}`,
		},
		{title: 'Source', cell: (row: Suppression) => renderSource(row), wide: true as const},
		{
			title: 'Since',
			cell: (row: Suppression) => time(row.created_at, now),
			right: true as const,
			wide: true as const,
		},
		...(mayRemove ? [{title: '', cell: removeMenu, right: true as const}] : []),
	],
});

const reasonNames: Readonly<Record<SuppressionReason, string>> = {
	hard_bounce: 'hard bounce',
	complaint: 'complaint',
	manual: 'added manually',
	unsubscribe: 'unsubscribed',
};

const sourceNames: Readonly<Record<string, string>> = {
	api: 'the API',
	'one-click': 'the unsubscribe page',
	cli: 'the command line',
	dashboard: 'this dashboard',
	import: 'an import',
};

/** Renders what added the entry: for a bounce or complaint, a link to the message. */
function renderSource({source}: Suppression): Html {
	return isId('msg', source)
		? html`<a href="/messages/${source}">the message</a>`
		: html`${sourceNames[source] ?? source}`;
}

const reasonChips = (query: URLSearchParams): Html =>
	chips(
		'Reason',
		query,
		'reason',
		[{value: '', label: 'All'}, ...suppressionReasons.map(reason => ({value: reason, label: reasonNames[reason]}))],
		path,
	);

const addForm = (value: string): Html =>
	act({
		to: path,
		label: 'Add',
		fields: input({name: 'address', label: 'Address', type: 'email', required: true, value}),
	});

const importPath = '/suppressions/import';
/** The maximum number of imports that the process remembers. */
const maxRetained = 20;
/** The maximum number of concurrent imports per workspace. Each holds its file in memory. */
const maxConcurrent = 2;
/** The number of bytes that are read before other work gets a turn. */
const pieceBytes = 64 * 1024;

/** An import that is running or has finished in this process. Imported entries remain if it fails. */
type Job = {
	readonly id: string;
	readonly workspaceId: string;
	readonly file: string;
	readonly bytes: number;
	done: number;
	readonly importer: Pick<SuppressionImport, 'counts' | 'bad' | 'problems'>;
	/** `null` while it is running. */
	result: 'finished' | {readonly fault: string} | null;
};

/** Imports a CSV file of suppressed addresses. The form leads to a page that shows the progress. */
function importPages({store: {writer}, tools: {random}}: DashboardParts): readonly Route[] {
	const jobs = new Map<string, Job>();
	const seats = new ConcurrencyLimit(maxConcurrent);

	async function run(job: Job, importer: SuppressionImport, content: Buffer) {
		const failure = await importer.read(streamPieces(content), bytes => {
			job.done = bytes;
		});
		job.result = failure ? {fault: `The file ${failure.problem}: ${failure.fix}.`} : 'finished';
	}

	async function begin(visit: Visit): Promise<Answer> {
		const {file, form, workspace, tools} = visit;
		if (file === null || file.content.length === 0) {
			return go('/suppressions', 'Nothing was imported: choose a CSV file that is not empty.');
		}
		const release = seats.take(workspace.id);
		if (release === undefined) {
			return go('/suppressions', 'Two imports are already running. Wait until one has finished, then try again.');
		}
		const id = random(9).toString('base64url');
		const importer = new SuppressionImport({
			acting: tools,
			workspaceId: workspace.id,
			mode: 'live',
			reason: suppressionReasons.find(reason => reason === form.get('reason')),
			write: insertEntries(tools, workspace.id, writer.transaction),
		});
		const job: Job = {
			id,
			workspaceId: workspace.id,
			file: file.name,
			bytes: file.content.length,
			done: 0,
			importer,
			result: null,
		};
		jobs.set(id, job);
		for (const old of [...jobs.keys()].slice(0, Math.max(0, jobs.size - maxRetained))) {
			jobs.delete(old);
		}
		run(job, importer, file.content)
			.catch(() => {
				job.result = {
					fault: 'Writing to the store failed. The entries imported so far remain; import the file again.',
				};
			})
			.finally(release);
		return go(`${importPath}/${id}`);
	}

	async function show({params: {id = ''}, workspace}: Visit): Promise<Answer> {
		const job = jobs.get(id);
		if (job?.workspaceId !== workspace.id) {
			return missing('This import is no longer known. The entries that it imported are on the list.');
		}
		const content = live('import', job.result === null ? `${importPath}/${id}` : null, progress(job), '1s');
		return {kind: 'page', place: 'suppressions', title: `Import of ${job.file}`, content};
	}

	return [
		{method: 'POST', path: importPath, role: 'operator', file: true, answer: begin},
		{method: 'GET', path: `${importPath}/:id`, role: 'operator', answer: show},
	];
}

/** Yields the file piece by piece, so that other work gets a turn in between. */
async function* streamPieces(content: Buffer): AsyncGenerator<Buffer> {
	for (let start = 0; start < content.length; start += pieceBytes) {
		yield content.subarray(start, start + pieceBytes);
		await new Promise(resolve => setImmediate(resolve));
	}
}

/** The import form on the page of suppressions. */
function uploadForm(): Html {
	const hint = 'A file exported by another service, or one address per line; at most 32 MiB.';
	const reasons = [
		{value: '', label: 'from the file'},
		...suppressionReasons.map(value => ({value, label: value.replace('_', ' ')})),
	];
	const fields = html`${input({name: 'file', label: 'CSV file', type: 'file', required: true, hint})}${select({name: 'reason', label: 'Reason', value: ''}, reasons)}`;
	return act({to: importPath, label: 'Import', fields, file: true});
}

function progress({result, done, bytes, importer: {counts, bad, problems}}: Job): Html {
	const share = Math.round((100 * done) / bytes);
	const state =
		result === null
			? html`<p><label>Reading the file <progress max="100" value="${share}">${share} %</progress></label></p><p class="soft">You can leave this page. Without JavaScript, reload it to see the progress.</p>`
			: result === 'finished'
				? html`<p class="notice good" role="status">Import finished.</p>`
				: html`<p class="notice bad" role="alert">${result.fault}</p>`;
	const figures = facts([
		['Lines read', count(counts.read)],
		['Added', count(counts.added)],
		['Already listed', count(counts.listed)],
		['Rejected', count(bad)],
	]);
	const rejected = table({
		label: 'Rejected lines',
		columns: [
			{title: 'Line', cell: (row: LineProblem) => count(row.line), right: true},
			{title: 'Problem', cell: (row: LineProblem) => row.fault},
		],
		rows: problems,
		empty: html``,
	});
	return html`${state}<div class="card">${figures}</div>${problems.length > 0 ? html`<section><h2>Rejected lines</h2>${rejected}</section>` : null}<p class="more"><a href="/suppressions">View the list</a></p>`;
}
