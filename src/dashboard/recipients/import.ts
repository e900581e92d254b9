import {createImport, insertEntries, readRecords} from '../../admin/suppression-file.ts';
import {createSeats} from '../../api/turns.ts';
import {type Html, html} from '../../hosted/html.ts';
import {type SuppressionReason, suppressionReasons} from '../../mail/suppression.ts';
import {live} from '../live.ts';
import {act, count, facts, input, select, table} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, missing, type Route, type Visit} from '../route.ts';

const path = '/suppressions/import';
const mostFaults = 100;
/** Of the process; the oldest one is forgotten then. */
const mostKept = 20;
/** Of one workspace: each holds its file. */
const mostAtOnce = 2;
/** Bytes that are read before others have their turn. */
const pieceBytes = 64 * 1024;

type Fault = {readonly line: number; readonly fault: string};

/** An import that runs or has run in this process. What it wrote stays, whatever becomes of it. */
type Job = {
	readonly id: string;
	readonly workspaceId: string;
	readonly file: string;
	readonly bytes: number;
	done: number;
	counts: {readonly read: number; readonly added: number; readonly listed: number};
	bad: number;
	readonly faults: Fault[];
	/** Null: it runs. */
	end: 'ended' | {readonly fault: string} | null;
};

/** Takes a CSV file of suppressed addresses. The form answers at once; the page that it leads to follows the work. */
export function importPages({store: {writer}, tools: {random}}: DashboardParts): readonly Route[] {
	const jobs = new Map<string, Job>();
	const takeSeat = createSeats(mostAtOnce);

	async function run(job: Job, content: Buffer, reason: SuppressionReason | undefined, {tools, workspace}: Visit) {
		const reading = createImport({
			acting: tools,
			workspaceId: workspace.id,
			mode: 'live',
			reason,
			write: insertEntries(tools, workspace.id, writer.transaction),
			async onBad(line, fault) {
				job.bad++;
				if (job.faults.length < mostFaults) {
					job.faults.push({line, fault});
				}
			},
		});
		job.counts = reading.counts;
		for await (const part of readRecords(piecesOf(content))) {
			if ('fault' in part) {
				job.end = {fault: `The file ${part.fault}: ${part.mend}.`};
				return;
			}
			for (const record of part.records) {
				await reading.take(record);
			}
			job.done = part.bytes;
		}
		await reading.flush();
		job.end = 'ended';
	}

	async function begin(visit: Visit): Promise<Answer> {
		const {file, form, workspace} = visit;
		if (file === null || file.content.length === 0) {
			return go('/suppressions', 'Nothing was imported: choose a CSV file that is not empty.');
		}
		const leave = takeSeat(workspace.id);
		if (leave === undefined) {
			return go('/suppressions', 'Two imports are running. Wait until one has ended, then send the file again.');
		}
		const id = random(9).toString('base64url');
		const job: Job = {
			id,
			workspaceId: workspace.id,
			file: file.name,
			bytes: file.content.length,
			done: 0,
			counts: {read: 0, added: 0, listed: 0},
			bad: 0,
			faults: [],
			end: null,
		};
		jobs.set(id, job);
		for (const old of [...jobs.keys()].slice(0, Math.max(0, jobs.size - mostKept))) {
			jobs.delete(old);
		}
		const reason = suppressionReasons.find(one => one === form.get('reason'));
		run(job, file.content, reason, visit)
			.catch(() => {
				job.end = {fault: 'The store could not be written. What was imported so far stays; import the file again.'};
			})
			.finally(leave);
		return go(`${path}/${id}`);
	}

	async function show({params: {id = ''}, workspace}: Visit): Promise<Answer> {
		const job = jobs.get(id);
		if (job?.workspaceId !== workspace.id) {
			return missing('This import is not known any more. What it wrote is on the list.');
		}
		const content = live('import', job.end === null ? `${path}/${id}` : null, progress(job), '1s');
		return {kind: 'page', place: 'suppressions', title: `Import of ${job.file}`, content};
	}

	return [
		{method: 'POST', path, role: 'operator', file: true, answer: begin},
		{method: 'GET', path: `${path}/:id`, role: 'operator', answer: show},
	];
}

/** The file as it would come from a disk: others have their turn in between. */
async function* piecesOf(content: Buffer): AsyncGenerator<Buffer> {
	for (let at = 0; at < content.length; at += pieceBytes) {
		yield content.subarray(at, at + pieceBytes);
		await new Promise(resolve => setImmediate(resolve));
	}
}

/** What stands on the page of suppressions. */
export function uploadForm(): Html {
	const hint = 'As other services export it, or one address a line; at most 32 MiB.';
	const reasons = [
		{value: '', label: 'as the file says'},
		...suppressionReasons.map(value => ({value, label: value.replace('_', ' ')})),
	];
	const fields = html`${input({name: 'file', label: 'CSV file', type: 'file', required: true, hint})}${select({name: 'reason', label: 'Reason', value: ''}, reasons)}`;
	return act({to: path, label: 'Import', fields, file: true});
}

function progress({end, done, bytes, counts, bad, faults}: Job): Html {
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
			{title: 'Line', cell: (row: Fault) => count(row.line), right: true},
			{title: 'What is wrong', cell: (row: Fault) => row.fault},
		],
		rows: faults,
		empty: html``,
	});
	return html`${state}<div class="card">${figures}</div>${faults.length > 0 ? html`<section><h2>Lines that were not taken</h2>${wrong}</section>` : null}<p class="more"><a href="/suppressions">To the list</a></p>`;
}
