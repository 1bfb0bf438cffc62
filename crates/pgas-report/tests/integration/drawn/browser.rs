//! A browser that draws pages as pictures.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::picture::{Colour, Picture};

/// The theme that the system asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Theme {
    Light,
    Dark,
}

impl Theme {
    /// The colour of this name in the page's style: the light theme's comes first.
    pub(crate) fn colour(self, name: &str) -> Colour {
        let style = include_str!("../../../src/style.css");
        let start = format!("--{name}: #");
        let mut colours = style.split(&start).skip(1);
        let text = match self {
            Self::Light => colours.next().unwrap(),
            Self::Dark => colours.nth(1).unwrap(),
        };
        let digits = text.chars().map_while(|digit| digit.to_digit(16));
        let digits: Vec<u8> = digits.map(|digit| digit.try_into().unwrap()).collect();
        match *digits {
            [r, g, b] => [r, g, b].map(|digit| 17 * digit),
            [r, s, g, h, b, c] => [16 * r + s, 16 * g + h, 16 * b + c],
            _ => panic!("{text}"),
        }
    }
}

/// A browser, and the folder with its pages.
pub(crate) struct Browser {
    program: &'static str,
    directory: PathBuf,
}

impl Browser {
    /// A browser, if there is one; else a note on standard error says that it is left out.
    /// `cargo xtask setup` installs one.
    pub(crate) fn find(directory: &Path) -> Option<Self> {
        let programs = ["chromium", "chromium-browser", "google-chrome"];
        let is_there = |program: &&str| Command::new(program).arg("--version").output().is_ok();
        let Some(program) = programs.into_iter().find(is_there) else {
            // Past the test harness, which would keep it to itself.
            let note = b"note: chromium not found, left out (package chromium)\n";
            std::io::stderr().write_all(note).unwrap();
            return None;
        };
        let directory = directory.to_owned();
        Some(Self { program, directory })
    }

    /// Draws a page of the folder.
    pub(crate) fn draw(&self, name: &str, theme: Theme) -> Picture {
        let picture = self.directory.join("picture.png");
        let profile = self.directory.join("browser");
        let scheme = match theme {
            Theme::Dark => 0,
            Theme::Light => 1,
        };
        let output = Command::new(self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--window-size=1300,2000", "--force-device-scale-factor=1"])
            .args(["--force-color-profile=srgb", "--hide-scrollbars"])
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--screenshot={}", picture.display()))
            .arg(self.directory.join(name))
            .output()
            .unwrap();
        let bytes = fs::read(&picture).unwrap_or_else(|_| panic!("{output:?}"));
        fs::remove_file(picture).unwrap();
        Picture::decode(&bytes)
    }
}
