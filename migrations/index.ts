import type {Knex} from 'knex';

type Migration = {readonly up: (knex: Knex) => Promise<void>};

/**
 * Every migration in order, by its name; only those that a store lacks are loaded. Append only. `breaking`: the program
 * of the version before cannot use the store any more. Any other migration leaves what that program reads and writes as
 * it was.
 */
export const migrations: ReadonlyArray<readonly [name: string, load: () => Promise<Migration>, effect?: 'breaking']> = [
	['029_schema', () => import('./029_schema.ts'), 'breaking'],
	['030_proofs', () => import('./030_proofs.ts')],
	['031_smarthosts', () => import('./031_smarthosts.ts')],
	['032_alerts', () => import('./032_alerts.ts')],
	['033_blocklistings', () => import('./033_blocklistings.ts')],
	['034_webhook_forms', () => import('./034_webhook_forms.ts')],
	['035_send_features', () => import('./035_send_features.ts')],
	['036_certificates', () => import('./036_certificates.ts')],
	['037_received', () => import('./037_received.ts')],
	['038_aggregate_reports', () => import('./038_aggregate_reports.ts')],
	['039_signed_reports', () => import('./039_signed_reports.ts')],
	['040_reading_turns', () => import('./040_reading_turns.ts')],
	['041_report_keys', () => import('./041_report_keys.ts')],
	['042_alert_addresses', () => import('./042_alert_addresses.ts')],
	['043_bounds', () => import('./043_bounds.ts')],
	['044_deletions', () => import('./044_deletions.ts')],
	['045_event_owners', () => import('./045_event_owners.ts')],
	['046_operator_notes', () => import('./046_operator_notes.ts')],
	['047_acme_directories', () => import('./047_acme_directories.ts')],
	['048_alert_facts', () => import('./048_alert_facts.ts')],
	['049_first_starts', () => import('./049_first_starts.ts')],
	['050_node_terms', () => import('./050_node_terms.ts')],
];

/**
 * The last of the steps that the first migration has replaced: a store with it has that schema, one without it is too
 * old.
 */
export const lastReplaced = '029_fewer_event_rows';
