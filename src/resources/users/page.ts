import {
	act,
	badge,
	copyable,
	dangerItem,
	disclosure,
	facts,
	input,
	menu,
	name,
	nothing,
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

/** The users of the dashboard. Admins of one workspace see and change only its users. */
export function userPages(parts: DashboardParts): readonly Route[] {
	const {reader} = parts;

	async function list(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {now, form} = visit;
		const rows = await listUsers(reader, managedWorkspace(visit) ?? undefined);
		const email = fieldInputs(emailField, {typed: form});
		const fields = html`${email}${roleField('viewer')}${workspaceField(visit, managedWorkspace(visit))}`;
		const actions = disclosure('Add a user', act({to: path, label: 'Add', fields}));
		return {kind: 'page', place: 'users', title: 'Users', problem, actions, content: userTable(rows, now)};
	}

	async function show(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {now, signedIn} = visit;
		const user = await findUser(reader, visit.params.id ?? '');
		if (!user || ![null, user.workspace_id].includes(managedWorkspace(visit))) {
			notFound('user', '');
		}
		const workspace = user.workspace_id === null ? undefined : await findWorkspace(reader, user.workspace_id);
		const details = facts([
			['Role', user.role],
			['Workspace', user.workspace_id === null ? 'all' : name(workspace?.name ?? user.workspace_id)],
			[
				'Password',
				user.password_hash === null ? 'none' : user.totp === null ? 'set' : 'set, with a one-time code',
			],
			['Added', time(user.created_at, now)],
			['Last sign-in', time(user.last_login_at, now)],
		]);
		const fields = html`${roleField(user.role)}${workspaceField(visit, user.workspace_id)}`;
		const forms =
			user.id === signedIn.user.id
				? html`<p>This is you. Another admin can change or remove you; your password and passkeys are in <a href="/account">your account</a>.</p>`
				: html`${section('Change', act({to: `/users/${user.id}`, label: 'Save', fields}))}
${section('Sign-in', html`<p>A link signs ${user.email} in once without a password or code, in case they are lost.</p>${act({to: `/users/${user.id}/link`, label: 'Create link'})}`)}`;
		const about = 'They can then no longer sign in.';
		const removal = {to: `/users/${user.id}/remove`, label: 'Remove user', about, typed: user.email};
		const actions = user.id === signedIn.user.id ? nothing : menu([dangerItem(removal)]);
		return {kind: 'page', place: 'users', title: user.email, problem, actions, content: html`${details}${forms}`};
	}

	const checkRemoval = async (visit: Visit) => {
		const {params, tools} = visit;
		const {email} = await findOther(reader, {workspaceId: managedWorkspace(visit), tools}, params.id ?? '');
		checkTyped(visit, email, `Type ${email} to remove this user.`);
	};

	const listForm = operationForms(parts, {path, show: list, workspaceId: managedWorkspace});
	const userForm = operationForms(parts, {path, show, workspaceId: managedWorkspace});
	return [
		{method: 'GET', path, role: 'admin', answer: list},
		listForm(addUser, path, linkPage),
		{method: 'GET', path: `${path}/:id`, role: 'admin', answer: show},
		userForm(changeUser, `${path}/:id`, ({id}) => go(`${path}/${id}`, 'Saved. It takes effect immediately.')),
		userForm(linkUser, `${path}/:id/link`, linkPage),
		userForm(removeUser, `${path}/:id/remove`, ({email}) => `Removed ${email}.`, {before: checkRemoval}),
	];
}

/** The workspace whose users a visitor may change; `null` for all. */
const managedWorkspace = ({signedIn}: Visit): string | null => signedIn.user.workspaceId;

function linkPage({user, token}: Linked, {request: {protocol, host}}: Visit): Page {
	const content = html`<p>This link signs ${user.email} (${user.role}) in once, within an hour. It is not shown again: send it to them over a channel that you trust.</p>
<p>${copyable(`${protocol}://${host}/login/${token}`, 'the link')}</p>
<p><a href="/users">Back to the users</a></p>`;
	return {kind: 'page', place: 'users', title: 'Sign-in link', content};
}

function userTable(rows: readonly ListedUser[], now: number): Html {
	return table({
		label: 'Users',
		rows,
		link: ({id}) => `/users/${id}`,
		empty: html`<p>No users yet.</p>`,
		columns: [
			{title: 'Email', cell: row => row.email, cut: true},
			{title: 'Role', cell: row => badge(row.role, row.role === 'admin' ? 'busy' : 'idle')},
			{title: 'Workspace', cell: row => (row.workspace === null ? 'all' : name(row.workspace)), cut: true},
			{title: 'Sign-in', cell: signInMethods, wide: true},
			{title: 'Last sign-in', cell: row => time(row.last_login_at, now), right: true, wide: true},
		],
	});
}

function signInMethods({passkeys, password_hash, totp}: ListedUser): string {
	const methods = [
		passkeys > 0 && 'passkey',
		password_hash !== null && (totp === null ? 'password' : 'password and code'),
	];
	return methods.filter(method => method !== false).join(', ') || 'link';
}

function roleField(value: Role): Html {
	const descriptions = {viewer: 'reads', operator: 'manages mail and lists', admin: 'manages everything'};
	const choices = roles.map(role => ({value: role, label: `${role}: ${descriptions[role]}`}));
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
