import {size as sizeParser} from '../../config/parsers.ts';
import {pager, searchForm, toPage} from '../../dashboard/lists.ts';
import {
	act,
	badge,
	code,
	count,
	facts,
	hidden,
	input,
	name,
	nothing,
	opened,
	section,
	select,
	table,
	time,
} from '../../dashboard/markup.ts';
import {pageForms, wrong} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, notAllowed, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {labelProblem} from '../../kit/text.ts';
import {monthOf, parseDuration} from '../../kit/time.ts';
import {defaultAttachments, widestAttachments} from '../../mail/attachment-limits.ts';
import {readBranding, validAccent, validLogoUrl} from '../../mail/branding.ts';
import {readAccepted, readMonth} from '../../store/usage.ts';
import {canonicalLocale, formats} from '../formats.ts';
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
	type WorkspaceInput,
} from './rules.ts';
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
			['Quota of a month', quotaText(workspace)],
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
		const label = visit.form.get('name')?.trim() ?? '';
		const fault = labelProblem(label);
		if (fault !== null) {
			wrong(`The name ${fault}.`);
		}
		const made = await change(trx => createWorkspace(trx, visit.tools, {name: label}));
		if (!made) {
			wrong(`There is a workspace ${label} already. Choose another name.`);
		}
		await sessions.choose(visit.signedIn.sessionId, made.id);
		return go(`${path}/${made.id}`, `Made ${label}. Add a domain next, and a key.`);
	}

	async function update(visit: Visit): Promise<Answer> {
		const workspace = await chosen(visit);
		const input = readSettings(visit.form);
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
		const reason = visit.form.get('reason')?.trim() ?? '';
		const fault = labelProblem(reason);
		if (fault !== null) {
			wrong(`The reason ${fault}.`);
		}
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
	const fields = input({
		name: 'name',
		label: 'Name',
		required: true,
		value: form.get('name') ?? '',
		placeholder: 'shop',
	});
	return act({to: path, label: 'Make the workspace', fields});
}

function pausing(workspace: Workspace, everywhere: boolean): Html {
	const {id, paused_at: paused, reputation_warned_at: warned} = workspace;
	if (!everywhere && isPausedByInstallation(workspace)) {
		return html`<div class="card"><p>${fromAbove}</p></div>`;
	}
	const reason = input({name: 'reason', label: 'Reason', required: true, placeholder: 'under review'});
	const pause = act({
		to: `${path}/${id}/pause`,
		label: paused === null ? 'Pause' : 'Change the reason',
		fields: reason,
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

// The form of a workspace's settings: what it shows and how it is read.

const maxQuota = 2_000_000_000;
const maxDays = 36_500;

const numberProblem = (text: string, min: number, max: number): string | null =>
	text === '' || (/^\d{1,10}$/.test(text) && Number(text) >= min && Number(text) <= max)
		? null
		: `must be a whole number, ${min} to ${count(max)}, or empty`;

/** Octets; null: none was given, undefined: it is no size that may be set. */
function sizeOf(text: string): number | null | undefined {
	const read = parseSize(text, '');
	return text === '' ? null : read.ok && read.value <= widestAttachments.bytes ? read.value : undefined;
}

const parseSize = sizeParser(1);

/** An empty field takes a setting back. Throws what is wrong with one. */
function readSettings(form: URLSearchParams): Partial<WorkspaceInput> {
	const text = (field: string) => form.get(field)?.trim() ?? '';
	const orNull = (field: string) => (text(field) === '' ? null : text(field));
	const numberOrNull = (field: string) => (text(field) === '' ? null : Number(text(field)));
	const [quota, lifetime] = [text('quota'), text('lifetime')];
	const [logo, colour, support] = [text('logo'), text('colour'), text('support')];
	const checks: ReadonlyArray<readonly [string, string | null]> = [
		['name', labelProblem(text('name'))],
		['language', formats['locale-or-empty'](text('locale'))],
		['time zone', formats['timezone-or-empty'](text('timezone'))],
		['quota', numberProblem(quota, 0, maxQuota)],
		[
			'queue lifetime',
			lifetime === '' || (parseDuration(lifetime) ?? 0) > 0 ? null : 'must be a duration such as 4d, 36h or 90m',
		],
		['number of days that messages are kept', numberProblem(text('kept'), 1, maxDays)],
		['number of days that their content is kept', numberProblem(text('content'), 1, maxDays)],
		['number of attachments', numberProblem(text('attachments'), 0, widestAttachments.max)],
		[
			'size of attachments',
			sizeOf(text('size')) === undefined ? 'must be a size of at most 25MiB, such as 10MiB' : null,
		],
		['name for recipients', text('brand') === '' ? null : labelProblem(text('brand'))],
		['logo', logo === '' || validLogoUrl(logo) !== null ? null : 'must be an https URL with a full domain name'],
		['colour', colour === '' || validAccent(colour) !== null ? null : 'must be written as #2f5bd7'],
		['support address', support === '' ? null : formats.email(support)],
	];
	const [first] = checks.filter(([, fault]) => fault !== null);
	if (first) {
		wrong(`The ${first.join(' ')}.`);
	}
	const lifetimeMs = lifetime === '' ? null : (parseDuration(lifetime) ?? null);
	return {
		name: text('name'),
		locale: text('locale') === '' ? null : canonicalLocale(text('locale')),
		timezone: orNull('timezone'),
		...(form.has('topic') && {default_topic: orNull('topic')}),
		...(form.has('kept') && {retention_days: numberOrNull('kept'), content_days: numberOrNull('content')}),
		...(form.has('attachments') && {
			max_attachments: numberOrNull('attachments'),
			max_attachment_bytes: sizeOf(text('size')) ?? null,
		}),
		...(form.has('quota') && {monthly_quota: quota === '' ? null : Number(quota)}),
		queue_lifetime_s: lifetimeMs === null ? null : Math.ceil(lifetimeMs / 1000),
		track_opens: form.has('opens'),
		track_clicks: form.has('clicks'),
		branding: {
			name: orNull('brand'),
			logoUrl: validLogoUrl(logo),
			accent: validAccent(colour),
			supportEmail: orNull('support'),
		},
	};
}

/**
 * What users of one workspace may not set, a sentence for them; null: nothing of it. The quota and how long the queue
 * is used are the installation's. `maxLength`: milliseconds.
 */
function foreignSetting(workspace: Workspace, input: Partial<WorkspaceInput>, maxLength: number): string | null {
	const differs = (field: 'max_attachments' | 'max_attachment_bytes' | 'monthly_quota' | 'queue_lifetime_s') =>
		input[field] !== undefined && input[field] !== workspace[field];
	if (differs('max_attachments') || differs('max_attachment_bytes')) {
		return 'What may be attached is the installation’s: only users of all workspaces change it.';
	}
	if (differs('monthly_quota')) {
		return 'The quota is the installation’s: only users of all workspaces change it.';
	}
	return differs('queue_lifetime_s') && (input.queue_lifetime_s ?? 0) * 1000 > maxLength
		? `The queue lifetime is at most that of the installation (${maxLength / 1000}s): only users of all workspaces set a longer one.`
		: null;
}

/** With what was typed before something was wrong with it. */
function settingsForm(
	workspace: Workspace,
	topics: readonly Topic[],
	{form, everywhere}: Pick<Visit, 'form' | 'everywhere'>,
): Html {
	const brand = readBranding(workspace.branding);
	const isRepeated = form.has('name');
	const field = (
		name: string,
		label: string,
		stored: string | number | null,
		more: {hint?: string; placeholder?: string} = {},
	) => input({name, label, value: isRepeated ? (form.get(name) ?? '') : String(stored ?? ''), ...more});
	const box = (name: string, label: string, stored: string | null) =>
		html`<label class="field check"><input type="checkbox" name="${name}"${(isRepeated ? form.has(name) : stored !== null) ? html` checked` : nothing}><span>${label}</span></label>`;
	const lifetime = workspace.queue_lifetime_s === null ? null : `${workspace.queue_lifetime_s}s`;
	const fields = html`<div class="grid">
${field('name', 'Name', workspace.name)}
${everywhere ? field('quota', 'Messages a month', workspace.monthly_quota, {hint: 'Empty: no limit'}) : nothing}
${
	everywhere
		? html`${field('attachments', 'Attachments of a mail', workspace.max_attachments, {placeholder: String(defaultAttachments.max)})}${field('size', 'Size of each', workspace.max_attachment_bytes, {placeholder: '1MiB', hint: 'Such as 10MiB, or octets'})}`
		: nothing
}
${field('lifetime', 'Queue lifetime', lifetime, {placeholder: '4d', hint: 'How long delivery is tried'})}
${field('kept', 'Days that messages are kept', workspace.retention_days, {hint: 'Empty: as long as the installation keeps them'})}
${field('content', 'Days that their content is kept', workspace.content_days, {hint: 'Variables, subject, attachments'})}
${field('locale', 'Language', workspace.locale, {placeholder: 'en', hint: 'Where neither send nor contact has one'})}
${field('timezone', 'Time zone', workspace.timezone, {placeholder: 'Europe/Vienna'})}
${select(
	{
		name: 'topic',
		label: 'Topic of sends that name none',
		value: (isRepeated ? form.get('topic') : workspace.default_topic) ?? '',
	},
	[...new Set(['', ...topics.map(one => one.code), workspace.default_topic ?? ''])].map(value => ({
		value,
		label: value || 'none',
	})),
)}
${field('brand', 'Name for recipients', brand.name, {hint: 'On the unsubscribe page'})}
${field('logo', 'Logo', brand.logoUrl, {placeholder: 'https://shop.example/logo.png'})}
${field('colour', 'Colour', brand.accent, {placeholder: '#2f5bd7'})}
${field('support', 'Support address', brand.supportEmail, {placeholder: 'help@shop.example'})}
</div><div class="actions">${box('opens', 'Record opens', workspace.track_opens_at)}${box('clicks', 'Record clicks', workspace.track_clicks_at)}</div>`;
	return html`<div class="card stack">${act({to: `/workspaces/${workspace.id}`, label: 'Save', fields})}</div>`;
}
