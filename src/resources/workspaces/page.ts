import {pager, searchForm, toPage} from '../../dashboard/lists.ts';
import {
	act,
	badge,
	code,
	count,
	facts,
	hidden,
	name,
	nothing,
	opened,
	section,
	table,
	time,
} from '../../dashboard/markup.ts';
import {fieldInputs, pageForms, readFields, wrong} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, notAllowed, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {durationText, monthOf} from '../../kit/time.ts';
import {readAccepted, readMonth} from '../../store/usage.ts';
import {listFields, lowerFirst, valueAt} from '../fields.ts';
import {notFound} from '../operation.ts';
import {listTopics, type Topic} from '../topics/store.ts';
import {
	changeWorkspace,
	checkDefaultTopic,
	checkRetention,
	createWorkspace,
	isPausedByInstallation,
	pauseByInstallation,
	pauseByWorkspace,
	resumeByInstallation,
	resumeByWorkspace,
} from './rules.ts';
import {pauseInput, toSettings, type WorkspaceFields, workspaceInput} from './settings.ts';
import {findWorkspace, findWorkspaces, type Workspace} from './store.ts';

const perPage = 50;
const maxTopics = 1000;
const path = '/workspaces';
const fromAbove =
	'The operator of this installation, or the guard of its reputation, paused this workspace. Only users of all workspaces resume it.';

type Row = {readonly workspace: Workspace; readonly accepted: number};

/** Each workspace: what it may send, whether it is paused, how its pages look. */
export function workspacePages({reader, change, sessions, live}: DashboardParts): readonly Route[] {
	/** If the visitor may see it. */
	const seen = async ({signedIn}: Visit, id: string): Promise<Workspace | undefined> =>
		[null, id].includes(signedIn.user.workspaceId) ? await findWorkspace(reader, id) : undefined;
	const chosen = async (visit: Visit) => (await seen(visit, visit.params.id ?? '')) ?? notFound('workspace', '');

	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {query, now, form, everywhere} = visit;
		const named = query.get('q')?.trim() ?? '';
		const listed = everywhere
			? await findWorkspaces(reader, {after: query.get('after'), limit: perPage + 1, named})
			: visit.workspaces;
		const {rows: some, last} = toPage(listed, perPage);
		const accepted = await readAccepted(
			reader,
			some.map(({id}) => id),
			monthOf(now).name,
		);
		const rows = some.map((workspace): Row => ({workspace, accepted: accepted.get(workspace.id) ?? 0}));
		const isSearched = everywhere && (named !== '' || query.has('after') || last !== undefined);
		const mayCreate = visit.may('admin') && visit.everywhere;
		return {
			kind: 'page',
			problem,
			place: 'workspaces',
			title: 'Workspaces',
			actions: mayCreate ? opened('New workspace', newForm(form)) : nothing,
			content: html`${isSearched ? searchForm({to: path, query, placeholder: 'a part of the name'}) : null}${table(
				{
					label: 'Workspaces',
					link: ({workspace}) => `${path}/${workspace.id}`,
					columns: [
						{title: 'Name', cell: ({workspace}) => name(workspace.name), cut: true},
						{title: 'State', cell: ({workspace}) => stateBadge(workspace)},
						{title: 'This month', cell: row => count(row.accepted), right: true},
						{title: 'Quota', cell: ({workspace}) => quotaText(workspace), right: true},
						{title: 'Id', cell: ({workspace}) => code(workspace.id), wide: true},
					],
					rows,
					empty:
						named === ''
							? html`<p>No workspace yet.</p><p>A workspace has its own senders, templates, keys and lists.</p>`
							: html`<p>No workspace has this in its name.</p><p><a href="${path}">Show all</a></p>`,
				},
			)}${pager(path, query, last?.id ?? null)}`,
		};
	}

	async function show(visit: Visit, problem: string | null = null): Promise<Answer> {
		const workspace = await chosen(visit);
		const {now} = visit;
		const used = (await readMonth(reader, workspace.id, monthOf(now).name)).accepted;
		const share =
			workspace.monthly_quota === null
				? null
				: Math.min(100, (100 * used) / Math.max(1, workspace.monthly_quota));
		const known = facts([
			['State', stateBadge(workspace)],
			['Paused', workspace.paused_at && time(workspace.paused_at, now)],
			['Why', workspace.pause_reason && name(workspace.pause_reason)],
			['Accepted this month', count(used)],
			['Monthly quota', quotaText(workspace)],
			[
				'Used',
				share === null
					? null
					: html`<meter max="100" value="${share}" aria-label="Used of the quota">${share.toFixed(0)} %</meter>`,
			],
			['Default topic', workspace.default_topic && code(workspace.default_topic)],
			['Made', time(workspace.created_at, now)],
			['Id', code(workspace.id)],
		]);
		const content = html`<div class="card">${known}</div>${
			visit.may('admin')
				? html`${section('Sending', pausing(workspace, visit.everywhere))}${section('Settings', settingsForm(workspace, await listTopics(reader, {workspaceId: workspace.id, after: null, limit: maxTopics}), visit))}${section('Delete', deleting(workspace))}`
				: null
		}`;
		return {
			kind: 'page',
			problem,
			place: 'workspaces',
			title: workspace.name,
			actions: workspace.id === visit.workspace.id ? nothing : switching(workspace),
			content,
		};
	}

	async function create(visit: Visit): Promise<Answer> {
		const input = readFields<WorkspaceFields>(nameField, visit.form);
		const made = await change(trx => createWorkspace(trx, visit.tools, {name: input.name}));
		if (!made) {
			wrong(`There is a workspace ${input.name} already. Choose another name.`);
		}
		await sessions.choose(visit.signedIn.sessionId, made.id);
		return go(`${path}/${made.id}`, `Created ${input.name}. Add a domain next, and a key.`);
	}

	async function update(visit: Visit): Promise<Answer> {
		const workspace = await chosen(visit);
		// The form has no route, which is the only setting that needs the vault.
		const {route: _, ...input} = readFields<Partial<WorkspaceFields>>(allFields, visit.form);
		const foreign = visit.everywhere ? null : foreignSetting(workspace, input, live().queueLifetime);
		if (foreign !== null) {
			return notAllowed(foreign);
		}
		checkRetention(input, live().retentionDays);
		await checkDefaultTopic(reader, workspace.id, input);
		const changed = await change(trx => changeWorkspace(trx, visit.tools, workspace.id, input));
		return changed
			? go(`${path}/${workspace.id}`, 'Saved.')
			: wrong(`There is a workspace ${input.name} already. Choose another name.`);
	}

	async function pause(visit: Visit): Promise<Answer> {
		const workspace = await chosen(visit);
		const {reason} = readFields<{reason: string}>(pauseFields, visit.form);
		const {tools, everywhere} = visit;
		const paused = await change(async trx =>
			everywhere
				? await pauseByInstallation(trx, tools, workspace, reason)
				: await pauseByWorkspace(trx, tools, workspace.id, reason),
		);
		if (paused === false) {
			return notAllowed(fromAbove);
		}
		return go(`${path}/${workspace.id}`, 'Paused: sends are refused, and what waits is held.');
	}

	async function resume(visit: Visit): Promise<Answer> {
		const workspace = await chosen(visit);
		const {tools, everywhere} = visit;
		const resumed = await change(async trx =>
			everywhere
				? await resumeByInstallation(trx, tools, workspace.id)
				: await resumeByWorkspace(trx, tools, workspace.id),
		);
		if (resumed === false) {
			return notAllowed(fromAbove);
		}
		return go(`${path}/${workspace.id}`, 'It sends again, what was held too.');
	}

	async function use(visit: Visit): Promise<Answer> {
		const workspace = await seen(visit, visit.form.get('workspace') ?? '');
		if (workspace) {
			await sessions.choose(visit.signedIn.sessionId, workspace.id);
		}
		return go('/messages');
	}

	const form = pageForms(show);
	return [
		{...page(path, list), withoutWorkspace: true},
		pageForms(list)(path, 'admin', create, {everywhere: true}),
		{method: 'POST', path: `${path}/use`, role: 'viewer', answer: use},
		page(`${path}/:id`, show),
		form(`${path}/:id`, 'admin', update),
		form(`${path}/:id/pause`, 'admin', pause),
		form(`${path}/:id/resume`, 'admin', resume),
	];
}

function stateBadge({paused_at: paused, reputation_warned_at: warned}: Workspace): Html {
	return paused !== null
		? badge('paused', 'bad')
		: warned !== null
			? badge('warned', 'warn')
			: badge('sending', 'good');
}

const quotaText = ({monthly_quota: quota}: Workspace): string => (quota === null ? 'none' : count(quota));

/** The list in the navigation may lack it. */
function switching({id}: Workspace): Html {
	return act({to: `${path}/use`, label: 'Switch to it', fields: hidden('workspace', id), look: 'quiet'});
}

function newForm(form: URLSearchParams): Html {
	const fields = fieldInputs(nameField, {typed: form});
	return act({to: path, label: 'Create workspace', fields});
}

function pausing(workspace: Workspace, everywhere: boolean): Html {
	const {id, paused_at: paused, reputation_warned_at: warned} = workspace;
	if (!everywhere && isPausedByInstallation(workspace)) {
		return html`<div class="card"><p>${fromAbove}</p></div>`;
	}
	const pause = act({
		to: `${path}/${id}/pause`,
		label: paused === null ? 'Pause' : 'Change the reason',
		fields: fieldInputs(pauseFields, {}),
	});
	const resume =
		paused === null && !(everywhere && warned !== null)
			? nothing
			: act({to: `${path}/${id}/resume`, label: 'Resume'});
	return html`<div class="card"><p>While paused it refuses sends and holds what waits; nothing is lost.</p><div class="actions">${resume}${pause}</div></div>`;
}

/** It takes minutes where there is much, and one should read twice what it takes along. */
function deleting({id}: Workspace): Html {
	return html`<div class="card"><p>With all its messages, templates, keys and lists, for ever: <code>mailctl workspace delete ${id} --yes</code></p></div>`;
}

// The form of a workspace's settings.

const allFields = listFields(workspaceInput).filter(({withoutForm}) => withoutForm === undefined);
const pauseFields = listFields(pauseInput);
const nameField = allFields.filter(({name}) => name === 'name');

/**
 * Returns a sentence about the first change that only users of all workspaces may make, or `null` if there is none.
 * `maxLifetimeMs` is the queue lifetime of the installation.
 */
function foreignSetting(workspace: Workspace, input: Partial<WorkspaceFields>, maxLifetimeMs: number): string | null {
	const stored = toSettings(workspace);
	const differs = ({name}: {readonly name: string}) =>
		valueAt(input, name) !== undefined && valueAt(input, name) !== valueAt(stored, name);
	const foreign = allFields.find(field => field.everywhere && differs(field));
	if (foreign) {
		return `Only users of all workspaces change the ${lowerFirst(foreign.label)}.`;
	}
	const isTooLong = differs({name: 'queue_lifetime'}) && (input.queue_lifetime ?? 0) * 1000 > maxLifetimeMs;
	const max = durationText(maxLifetimeMs);
	return isTooLong ? `Only users of all workspaces set a queue lifetime of more than ${max}.` : null;
}

/** With what was typed before something was wrong with it. */
function settingsForm(
	workspace: Workspace,
	topics: readonly Topic[],
	{form, everywhere}: Pick<Visit, 'form' | 'everywhere'>,
): Html {
	const fields = fieldInputs(
		allFields.filter(field => everywhere || !field.everywhere),
		{
			values: {name: workspace.name, ...toSettings(workspace)},
			typed: form,
			choices: {default_topic: topics.map(({code}) => code)},
		},
	);
	const grid = html`<div class="grid">${fields}</div>`;
	return html`<div class="card stack">${act({to: `${path}/${workspace.id}`, label: 'Save', fields: grid})}</div>`;
}
