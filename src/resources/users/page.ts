import {
	act,
	badge,
	copyable,
	facts,
	input,
	name,
	opened,
	section,
	select,
	table,
	time,
} from '../../dashboard/markup.ts';
import {checkTyped, fieldInputs, operationForms} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, type Page, type Route, type Visit} from '../../dashboard/route.ts';
import {maxOffered} from '../../dashboard/visitor.ts';
import {type Html, html} from '../../hosted/html.ts';
import {type Role, roles} from '../../mail/operator.ts';
import {listFields} from '../fields.ts';
import {notFound} from '../operation.ts';
import {findWorkspace} from '../workspaces/store.ts';
import {addUser, changeUser, everyWorkspace, findOther, type Linked, linkUser, removeUser} from './rules.ts';
import {findUser, type ListedUser, listUsers} from './store.ts';

const path = '/users';
const emailField = listFields(addUser.input).filter(({name}) => name === 'email');

/** Who may see the dashboard. Admins of one workspace see and change its users alone. */
export function userPages(parts: DashboardParts): readonly Route[] {
	const {reader} = parts;

	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {now, form} = visit;
		const rows = await listUsers(reader, reach(visit) ?? undefined);
		const email = fieldInputs(emailField, {typed: form});
		const fields = html`${email}${roleField('viewer')}${workspaceField(visit, reach(visit))}`;
		const actions = opened('Add a user', act({to: path, label: 'Add', fields}));
		return {kind: 'page', place: 'users', title: 'Users', problem, actions, content: userTable(rows, now)};
	}

	async function show(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {now, signedIn} = visit;
		const user = await findUser(reader, visit.params.id ?? '');
		if (!user || ![null, user.workspace_id].includes(reach(visit))) {
			notFound('user', '');
		}
		const workspace = user.workspace_id === null ? undefined : await findWorkspace(reader, user.workspace_id);
		const said = facts([
			['Role', user.role],
			['Workspace', user.workspace_id === null ? 'all' : name(workspace?.name ?? user.workspace_id)],
			[
				'Password',
				user.password_hash === null ? 'none' : user.totp === null ? 'set' : 'set, with a one-time code',
			],
			['Added', time(user.created_at, now)],
			['Last log-in', time(user.last_login_at, now)],
		]);
		const fields = html`${roleField(user.role)}${workspaceField(visit, user.workspace_id)}`;
		const forms =
			user.id === signedIn.user.id
				? html`<p>This is you. Another admin can change or remove you; your password and passkeys are in <a href="/account">your account</a>.</p>`
				: html`${section('Change', act({to: `/users/${user.id}`, label: 'Save', fields}))}
${section('Log-in', html`<p>A link logs ${user.email} in once, without password and code: for who has forgotten or lost them.</p>${act({to: `/users/${user.id}/link`, label: 'Make a link'})}`)}
${section('Remove', act({to: `/users/${user.id}/remove`, label: 'Remove the user', look: 'danger', typed: user.email}))}`;
		return {kind: 'page', place: 'users', title: user.email, problem, content: html`${said}${forms}`};
	}

	const checkRemoval = async (visit: Visit) => {
		const {params, tools} = visit;
		const {email} = await findOther(reader, {workspaceId: reach(visit), tools}, params.id ?? '');
		checkTyped(visit, email, `Type ${email} to remove this user.`);
	};

	const ofList = operationForms(parts, {path, show: list, workspaceId: reach});
	const ofUser = operationForms(parts, {path, show, workspaceId: reach});
	return [
		{method: 'GET', path, role: 'admin', answer: list},
		ofList(addUser, path, linkPage),
		{method: 'GET', path: `${path}/:id`, role: 'admin', answer: show},
		ofUser(changeUser, `${path}/:id`, ({id}) => go(`${path}/${id}`, 'Saved. It holds at once.')),
		ofUser(linkUser, `${path}/:id/link`, linkPage),
		ofUser(removeUser, `${path}/:id/remove`, ({email}) => `${email} is removed.`, {before: checkRemoval}),
	];
}

/** The workspace whose users a visitor may change; `null` for all. */
const reach = ({signedIn}: Visit): string | null => signedIn.user.workspaceId;

function linkPage({user, token}: Linked, {request: {protocol, host}}: Visit): Page {
	const content = html`<p>This link logs ${user.email} (${user.role}) in once, within an hour. It is shown only now: give it to them over a way that you trust.</p>
<p>${copyable(`${protocol}://${host}/login/${token}`, 'the link')}</p>
<p><a href="/users">Back to the users</a></p>`;
	return {kind: 'page', place: 'users', title: 'A link to log in', content};
}

function userTable(rows: readonly ListedUser[], now: number): Html {
	return table({
		label: 'Users',
		rows,
		link: ({id}) => `/users/${id}`,
		empty: html`<p>No users yet.</p>`,
		columns: [
			{title: 'E-mail', cell: row => row.email, cut: true},
			{title: 'Role', cell: row => badge(row.role, row.role === 'admin' ? 'busy' : 'idle')},
			{title: 'Workspace', cell: row => (row.workspace === null ? 'all' : name(row.workspace)), cut: true},
			{title: 'Log-in', cell: logInOf, wide: true},
			{title: 'Last log-in', cell: row => time(row.last_login_at, now), right: true, wide: true},
		],
	});
}

function logInOf({passkeys, password_hash, totp}: ListedUser): string {
	const ways = [
		passkeys > 0 && 'passkey',
		password_hash !== null && (totp === null ? 'password' : 'password and code'),
	];
	return ways.filter(way => way !== false).join(', ') || 'link';
}

function roleField(value: Role): Html {
	const about = {viewer: 'looks', operator: 'acts on mail and lists', admin: 'changes everything'};
	const choices = roles.map(role => ({value: role, label: `${role}: ${about[role]}`}));
	return select({name: 'role', label: 'Role', value}, choices);
}

function workspaceField({signedIn, workspaces}: Visit, value: string | null): Html | null {
	if (signedIn.user.workspaceId !== null) {
		return null;
	}
	const all = {value: everyWorkspace, label: 'all'};
	if (workspaces.length > maxOffered) {
		const hint = 'the id of a workspace, or all';
		return input({name: 'workspace', label: 'Workspace', value: value ?? everyWorkspace, required: true, hint});
	}
	const choices = [all, ...workspaces.map(({id, name: label}) => ({value: id, label}))];
	return select({name: 'workspace', label: 'Workspace', value: value ?? everyWorkspace}, choices);
}
