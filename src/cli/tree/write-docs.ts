import {writeFileSync} from 'node:fs';
import {exampleFile, settingsPage} from '../../config/table.ts';
import {mailctl} from '../commands.ts';
import {cliPage, manPage} from './tree.ts';

const program = await mailctl();
writeFileSync('docs/reference/settings.md', settingsPage());
writeFileSync('config/mailctl.env.example', exampleFile());
writeFileSync('docs/reference/cli.md', cliPage(program));
writeFileSync('docs/reference/mailctl.1', manPage(program));
