import {generateSigningKeys} from '../../compose/dkim.ts';
import {parseDomain} from '../../mail/address.ts';
import {Type} from '../../mail/type.ts';
import {declaration} from '../apply/declaration.ts';
import {field, optionalOrNull} from '../fields.ts';
import {linkHostProblem} from './link-host.ts';
import {addDomain, removeDomain, returnPathProblem, updateDomain} from './rules.ts';
import {findDomain, listDomains} from './store.ts';

const name = field(Type.String({format: 'domain'}), {normalize: parseDomain});
const host = field(optionalOrNull(Type.String({format: 'domain'})), {normalize: parseDomain});

export const declaredDomains = declaration({
	kind: 'domain',
	section: 'domains',
	schema: Type.Object({name, return_path_domain: host, link_host: host}, {additionalProperties: false}),
	key: ['name'],
	fixed: ['return_path_domain'],
	omitted: ['link_host'],
	check({name, return_path_domain = null, link_host = null}, refuse) {
		refuse('return_path_domain', returnPathProblem(name, return_path_domain));
		refuse('link_host', linkHostProblem({name, return_path_domain}, link_host));
	},
	async read(reader, workspaceId) {
		const domains = await listDomains(reader, workspaceId);
		return domains.map(({name, return_path_domain, link_host}) => ({name, return_path_domain, link_host}));
	},
	operations: [addDomain, updateDomain, removeDomain],
	steps: {
		async add({perform, ownHosts}, {declared: {name, return_path_domain, link_host}}) {
			const hosts = {...(return_path_domain && {return_path_domain}), ...(link_host && {link_host})};
			const keys = await generateSigningKeys();
			return (await perform(addDomain, {name, ...hosts, keys, ownHosts})).domain;
		},
		async change({reader, workspaceId, perform, ownHosts}, {declared: {name, link_host = null}}) {
			const row = await findDomain(reader, workspaceId, name);
			return row && (await perform(updateDomain, {id: row.id, link_host, ownHosts})).domain;
		},
		async remove({reader, workspaceId, perform}, {known: {name}}) {
			const row = await findDomain(reader, workspaceId, name);
			if (!row) {
				return undefined;
			}
			await perform(removeDomain, {id: row.id});
			return {};
		},
	},
});
