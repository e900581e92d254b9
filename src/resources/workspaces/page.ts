import {pager, searchForm, toPage} from '../../dashboard/lists.ts';
import {
	act,
	badge,
	code,
	count,
	disclosure,
	facts,
	hidden,
	name,
	nothing,
	section,
	table,
	time,
} from '../../dashboard/markup.ts';
import {fieldInputs, pageForms, readFields, rejectForm} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {places} from '../../dashboard/places.ts';
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
const pausedByInstallation =
	'The operator of this installation or its reputation guard paused this workspace. Only users of all workspaces can resume it.';

type Row = {readonly workspace: Workspace; readonly accepted: number};

/** The pages of workspaces: their quota, whether they are paused, and their settings. */
export function workspacePages({reader, change, sessions, live}: DashboardParts): readonly Route[] {
	/** Returns a workspace if the visitor may see it. */
	const find = async ({signedIn}: Visit, id: string): Promise<Workspace | undefined> =>
		[null, id].includes(signedIn.user.workspaceId) ? await findWorkspace(reader, id) : undefined;
	const chosen = async (visit: Visit) => (await find(visit, visit.params.id ?? '')) ?? notFound('workspace', '');

	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {query, now, form, everywhere} = visit;
		const search = query.get('q')?.trim() ?? '';
		const listed = everywhere
			? await findWorkspaces(reader, {after: query.get('after'), limit: perPage + 1, named: search})
			: visit.workspaces;
		const {rows: workspaces, last} = toPage(listed, perPage);
		const accepted = await readAccepted(
			reader,
			workspaces.map(({id}) => id),
			monthOf(now).name,
		);
		const rows = workspaces.map((workspace): Row => ({workspace, accepted: accepted.get(workspace.id) ?? 0}));
		const isSearched = everywhere && (search !== '' || query.has('after') || last !== undefined);
		const mayCreate = visit.may('admin') && visit.everywhere;
		return {
			kind: 'page',
			problem,
			place: 'workspaces',
			title: 'Workspaces',
			actions: mayCreate ? disclosure('New workspace', newForm(form)) : nothing,
			content: html`${isSearched ? searchForm({to: path, query, placeholder: 'part of the name'}) : null}${table({
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
					search === ''
						? html`<p>No workspaces yet.</p><p>A workspace has its own senders, templates, keys and lists.</p>`
						: html`<p>No matching workspaces.</p><p><a href="${path}">Show all</a></p>`,
			})}${pager(path, query, last?.id ?? null)}`,
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
		const summary = facts([
			['State', stateBadge(workspace)],
			['Paused', workspace.paused_at && time(workspace.paused_at, now)],
			['Reason', workspace.pause_reason && name(workspace.pause_reason)],
			['Accepted this month', count(used)],
			['Monthly quota', quotaText(workspace)],
			[
				'Used',
				share === null
					? null
					: html`<meter max="100" value="${share}" aria-label="Share of the quota used">${share.toFixed(0)} %</meter>`,
			],
			['Default topic', workspace.default_topic && code(workspace.default_topic)],
			['Created', time(workspace.created_at, now)],
			['Id', code(workspace.id)],
		]);
		const content = html`<div class="card">${summary}</div>${
			visit.may('admin')
				? html`${section('Sending', pauseForm(workspace, visit.everywhere))}${section('Settings', settingsForm(workspace, await listTopics(reader, {workspaceId: workspace.id, after: null, limit: maxTopics}), visit))}${section('Delete', deletionNote(workspace))}`
				: null
		}`;
		return {
			kind: 'page',
			problem,
			place: 'workspaces',
			title: workspace.name,
			actions: workspace.id === visit.request.visitor?.workspace?.id ? nothing : switchForm(workspace),
			content,
		};
	}

	async function create(visit: Visit): Promise<Answer> {
		const input = readFields<WorkspaceFields>(nameField, visit.form);
		const created = await change(trx => createWorkspace(trx, visit.tools, {name: input.name}));
		if (!created) {
			rejectForm(`A workspace named ${input.name} already exists. Choose another name.`);
		}
		await sessions.choose(visit.signedIn.sessionId, created.id);
		return go(`${path}/${created.id}`, `Created ${input.name}. Next, add a domain and create a key.`);
	}

	async function update(visit: Visit): Promise<Answer> {
		const workspace = await chosen(visit);
		// The form has no route, which is the only setting that needs the vault.
		const {route: _, ...input} = readFields<Partial<WorkspaceFields>>(allFields, visit.form);
		const refusal = visit.everywhere ? null : deniedSetting(workspace, input, live().queueLifetime);
		if (refusal !== null) {
			return notAllowed(refusal);
		}
		checkRetention(input, live().retentionDays);
		await checkDefaultTopic(reader, workspace.id, input);
		const changed = await change(trx => changeWorkspace(trx, visit.tools, workspace.id, input));
		return changed
			? go(`${path}/${workspace.id}`, 'Saved.')
			: rejectForm(`A workspace named ${input.name} already exists. Choose another name.`);
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
			return notAllowed(pausedByInstallation);
		}
		return go(`${path}/${workspace.id}`, 'Paused: sends are refused, and queued messages are held.');
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
			return notAllowed(pausedByInstallation);
		}
		return go(`${path}/${workspace.id}`, 'Sending resumed, including held messages.');
	}

	async function use(visit: Visit): Promise<Answer> {
		const workspace = await find(visit, visit.form.get('workspace') ?? '');
		if (workspace) {
			await sessions.choose(visit.signedIn.sessionId, workspace.id);
		}
		const place = places.find(each => each === visit.form.get('place')) ?? 'messages';
		return {...go(`/${place}`), ...(workspace && {workspace})};
	}

	const form = pageForms(show);
	return [
		page(path, list),
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

/** Offers to switch to a workspace, because the list in the navigation may not contain it. */
function switchForm({id}: Workspace): Html {
	return act({to: `${path}/use`, label: 'Switch to this workspace', fields: hidden('workspace', id), look: 'quiet'});
}

function newForm(form: URLSearchParams): Html {
	const fields = fieldInputs(nameField, {typed: form});
	return act({to: path, label: 'Create workspace', fields});
}

function pauseForm(workspace: Workspace, everywhere: boolean): Html {
	const {id, paused_at: paused, reputation_warned_at: warned} = workspace;
	if (!everywhere && isPausedByInstallation(workspace)) {
		return html`<div class="card"><p>${pausedByInstallation}</p></div>`;
	}
	const pause = act({
		to: `${path}/${id}/pause`,
		label: paused === null ? 'Pause' : 'Change reason',
		fields: fieldInputs(pauseFields, {}),
		look: 'quiet',
	});
	const resume =
		paused === null && !(everywhere && warned !== null)
			? nothing
			: act({to: `${path}/${id}/resume`, label: 'Resume'});
	return html`<div class="card"><p>While a workspace is paused, sends are refused and queued messages are held. Nothing is lost.</p><div class="actions">${resume}${pause}</div></div>`;
}

/** Names the command that deletes a workspace. It is not a form, because a deletion can take minutes and needs care. */
function deletionNote({id}: Workspace): Html {
	return html`<div class="card"><p>To delete it permanently with all its messages, templates, keys and lists, run <code>mailctl workspace delete ${id} --yes</code></p></div>`;
}

const allFields = listFields(workspaceInput).filter(({withoutForm}) => withoutForm === undefined);
const pauseFields = listFields(pauseInput);
const nameField = allFields.filter(({name}) => name === 'name');

/**
 * Returns a sentence about the first change that only users of all workspaces may make, or `null` if there is none.
 * `maxLifetimeMs` is the queue lifetime of the installation.
 */
function deniedSetting(workspace: Workspace, input: Partial<WorkspaceFields>, maxLifetimeMs: number): string | null {
	const stored = toSettings(workspace);
	const differs = ({name}: {readonly name: string}) =>
		valueAt(input, name) !== undefined && valueAt(input, name) !== valueAt(stored, name);
	const restricted = allFields.find(field => field.everywhere && differs(field));
	if (restricted) {
		return `Only users of all workspaces can change the ${lowerFirst(restricted.label)}.`;
	}
	const isTooLong = differs({name: 'queue_lifetime'}) && (input.queue_lifetime ?? 0) * 1000 > maxLifetimeMs;
	const max = durationText(maxLifetimeMs);
	return isTooLong ? `Only users of all workspaces can set a queue lifetime of more than ${max}.` : null;
}

/** Returns the settings form. It retains what was typed if the input had a problem. */
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
