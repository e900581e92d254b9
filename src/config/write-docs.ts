import {writeFileSync} from 'node:fs';
import {exampleFile, settingsPage} from './docs.ts';

writeFileSync('docs/reference/settings.md', settingsPage());
writeFileSync('config/mailctl.env.example', exampleFile());
