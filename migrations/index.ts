import type {Knex} from 'knex';

type Migration = {readonly up: (knex: Knex) => Promise<void>};

/**
 * Every migration by name, in order. Append only. A store loads only those it lacks. `breaking` means that the previous
 * version of the program can no longer use the store. Any other migration leaves unchanged what that version reads and
 * writes.
 *
 * The folder is the history of the schema on both engines. It relies on knex alone: a migration never imports code of
 * `src`, because that code may change later. A migration that was released never changes its effect.
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
	['051_slow_reasons', () => import('./051_slow_reasons.ts')],
];

/**
 * The last of the steps that the first migration replaced. A store with this step has that schema; one without it is
 * too old.
 */
export const lastReplaced = '029_fewer_event_rows';
